plan "starter" {
  monthly_credits = 500
  requests_per_minute {
    key     = local.requests
    account = local.requests * 4
    address = local.requests * 10
  }
}

plan "team" {
  monthly_credits = 5000
  requests_per_minute {
    key     = local.requests * 2
    account = local.requests * 20
    address = local.requests * 20
  }
}
