portal {
  stripe {
    secret_key      = env("STRIPE_WEBHOOK_SECRET")
    webhook_secret  = "hunter2"
    currency        = "euro"
    unit_amount     = 0.95
    unit_credits    = 300
    minimum_credits = 500
    price           = 1
  }
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
  price {
    input  = 0.05
    output = 0.20
  }
}
