gateway {
  namespace       = "acme-models"
  default_profile = "max"
  request_timeout = "90s"
  max_body        = 65536
  max_body_memory = "512KiB"
  max_streams     = 1000000
  keepalive       = "1s"
  drain_timeout   = "1m"
  plugin_dir      = "../plugins"
  structured_output = true
  client_models   = ["my-agent", "claude[1m]", "^acme-(red|blue)-\\d{1,2}$"]
  receipt_age     = "2160h"
  client_stall    = "1500ms"
}

store "sqlite" {
  path = "ledger/main.db"
}

limiter "memory" {
}

provider "local" {
  plugin = "echo"
  config {
  }
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 1
  max_output     = 1
  quality        = 0
  offers         = []
  specialty      = ["long_context", "graphics"]
  unsupported    = ["temperature", "stop", "stop"]
  max_concurrent = 1000000
  finish_reasons = { EOD = "stop", "end.of/turn-x:1" = "content_filter", cut_short = "length", calls = "tool_calls" }
  bills_past_allowance = true
  price {
    input      = 0
    output     = 0
    cache_read = 2
  }
  cost {
    input       = 0.5
    output      = 1000000
    cache_write = 0
  }
}

special "graphics" {
  terms = ["SVG", "矢量图"]
}

special "long_context" {
  above = 1
}

profile "max" {
  cost    = 0
  quality = 3
}

plan "free" {
  periods = false
}

plan "team.one" {
  monthly_credits = 1000000000
  requests_per_minute {
    key     = 0
    account = 1000000
  }
  spend_cap_credits   = 1000000000000
  token_budget        = 1e15
  fair_use_microcents = 0
  concurrent_requests = 1000000
}

plan "team.two" {
  default_profile = "budget"
  periods         = true
  requests_per_minute {
    address = 1
  }
  fair_use_microcents = 1000000 * 1e9
}

pre_auth {
  failures_per_minute = 0
}
