provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = ""
  context_window = 0
  max_output     = -5
  quality        = 1.01
  price {
    input  = 0.05
    output = 0.20
  }
}

route "b" {
  provider       = "local"
  model          = "echo"
  context_window = 1.5
  max_output     = 100000001
  quality        = -0.1
  price {
    input  = 0.05
    output = 0.20
  }
}
