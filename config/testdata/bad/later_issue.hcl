gateway {
  receipt_age = "24h"
}

cache "memory" {
  size = "64MiB"
}

provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  reasons        = true
  cost {
    input = 1
  }
  price {
    input  = 0.05
    output = 0.20
  }
}

plan "starter" {
  token_budget = 3
}
