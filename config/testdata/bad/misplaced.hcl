gateway {
  monthly_credits     = 500
  failures_per_minute = 120
  limiter "memory" {}
  requests_per_minute {
    key = 600
  }
}

pre_auth {
  failures_per_minute = 120
  address             = 120
  receipt_age         = "24h"
}

requests_per_minute {
  key = 600
}

token_budget = 1000

provider "local" {
  plugin         = "echo"
  max_concurrent = 8
  config {
    token_budget = 1
  }
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
    cost {
      input  = 0.04
      output = 0.16
    }
  }
  plan "starter" {}
}
