gateway {
  default_profile = "fast"
}

provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "locl"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
  }
}

route "b" {
  provider       = "somewhere"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
  }
}
