gateway {
  namespace       = "acme-models"
  default_profile = "max"
  request_timeout = "90s"
  max_body        = 65536
  max_body_memory = "512KiB"
  keepalive       = "1s"
  drain_timeout   = "1m"
  plugin_dir      = "../plugins"
  structured_output = true
  client_models   = ["my-agent", "claude[1m]", "^acme-(red|blue)-\\d{1,2}$"]
}

store "sqlite" {
  path = "ledger/main.db"
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
  price {
    input  = 0
    output = 0
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

plan "free" {}

plan "team.one" {
  monthly_credits = 1000000000
}
