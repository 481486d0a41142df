# A whole configuration, as tests read it.

gateway {
  namespace       = "service"
  default_profile = "balanced"
  request_timeout = "10m"
  max_body        = "32MiB"
  max_body_memory = "1GiB"
  max_streams     = 10000
  keepalive       = "15s"
  drain_timeout   = "5m"
  plugin_dir      = ""
  structured_output = false
  client_models   = []
  receipt_age     = "24h"
  client_stall    = "60s"
  request_log     = "7d"
}

store "sqlite" {
  path = "fareway.db"
}

limiter "memory" {}

provider "local" {
  plugin = "openai"
  config {
    base_url = "http://127.0.0.1:11434/v1"
  }
  start_timeout = "10s"
  max_memory    = "1GiB"
  confine {
    user          = "fareway-plugins"
    max_files     = 1024
    max_processes = 256
  }
}

provider "claude" {
  plugin = "anthropic"
  config {
    api_key = env("ANTHROPIC_API_KEY")
  }
}

route "small" {
  provider       = "local"
  model          = "qwen3:4b"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  offers         = ["tools", "json_object"]
  unsupported    = []
  metering       = "reported"
  max_concurrent = 0
  timeout        = "5m"
  finish_reasons = {}
  price {
    input       = 0.05
    output      = 0.20
    cache_read  = 0.01
    cache_write = 0.05
  }
}

route "deep" {
  provider       = "claude"
  model          = "claude-opus-4-5"
  context_window = 200000
  max_output     = 64000
  quality        = 0.95
  offers         = ["tools", "json_object", "json_schema"]
  specialty      = ["graphics"]
  bills_past_allowance = false
  price {
    input  = 5.00
    output = 25.00
  }
  cost {
    input  = 4.00
    output = 20.00
  }
}

special "graphics" {
  terms = ["svg", "three.js", "webgl", "3d scene"]
}
special "long_context" {
  above = 100000
}

profile "budget" {
  cost    = 0.8
  quality = 0.2
}
profile "balanced" {
  cost    = 0.5
  quality = 0.5
}
profile "max" {
  cost    = 0.1
  quality = 0.9
}

plan "starter" {
  monthly_credits = 500
  default_profile = "budget"
  periods         = true
  requests_per_minute {
    key     = 600
    account = 2400
    address = 6000
  }
  spend_cap_credits   = 0
  token_budget        = 0
  fair_use_microcents = 10000000
  concurrent_requests = 0
}

pre_auth {
  failures_per_minute = 120
}

telemetry {
  metrics   = true
  providers = true
  upstreams = true
  content   = true
}
