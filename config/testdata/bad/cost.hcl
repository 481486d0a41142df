provider "local" {
  plugin = "echo"
}

route "negative" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
  }
  cost {
    input       = -0.01
    output      = 1000000.01
    cache_read  = 0.000000001
    cache_write = "0.04"
  }
}

route "half" {
  provider             = "local"
  model                = "echo"
  context_window       = 32768
  max_output           = 8192
  quality              = 0.45
  bills_past_allowance = 1
  cost                 = 0.04
  price {
    input  = 0.05
    output = 0.20
  }
  cost {
    output = 0.16
    inputs = 0.04
  }
  cost {
    input  = 0.04
    output = 0.16
  }
}

route "missing" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  cost {
    input  = 0.04
    output = 0.16
  }
}
