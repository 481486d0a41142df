portal {
  stripe {
    secret_key      = env("STRIPE_SECRET_KEY")
    webhook_secret  = env("STRIPE_WEBHOOK_SECRET")
    currency        = "kwd"
    unit_amount     = 1005
    unit_credits    = 1
    minimum_credits = 500
    maximum_credits = 1000000
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
