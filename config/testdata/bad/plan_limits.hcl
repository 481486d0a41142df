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

plan "negative" {
  requests_per_minute {
    key     = -1
    account = -0.5
    address = 1.5
  }
  spend_cap_credits   = -1
  token_budget        = -1
  fair_use_microcents = -1
  concurrent_requests = -1
}

plan "absurd" {
  requests_per_minute {
    key     = 1000001
    account = 1e18
    address = "600"
  }
  spend_cap_credits   = 1000000000001
  token_budget        = 1e16
  fair_use_microcents = 1e15 + 1
  concurrent_requests = 1000001
}
