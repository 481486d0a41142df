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

plan "starter" {
  requests_per_minute = 600
  spend_cap           = 1000
  token_budgets       = 1
  concurrent_request  = 1
  requests_per_minute {
    keys       = 1
    ip_address = 1
  }
}

plan "team" {
  requests_per_minute "key" {
  }
  token_budget {
  }
}

plan "twice" {
  requests_per_minute {
  }
  requests_per_minute {
  }
}
