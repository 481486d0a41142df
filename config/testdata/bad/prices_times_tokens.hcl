provider "local" {
  plugin = "echo"
}

route "input" {
  provider       = "local"
  model          = "echo"
  context_window = 100000000
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 922.33720369
    output = 1
  }
}

route "output" {
  provider       = "local"
  model          = "echo"
  context_window = 100000000
  max_output     = 100000000
  quality        = 0.45
  price {
    input  = 1
    output = 1000
    above "1000" {
      input      = 1
      output     = 1
      cache_read = 1000000
    }
  }
  cost "2099-01-01" {
    input  = 1
    output = 1000
  }
  cost {
    input  = 922
    output = 1
  }
}

route "together" {
  provider       = "local"
  model          = "echo"
  context_window = 100000000
  max_output     = 100000000
  quality        = 0.45
  price {
    input  = 461.17
    output = 461.17
  }
}
