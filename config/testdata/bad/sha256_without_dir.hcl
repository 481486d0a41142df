provider "local" {
  plugin = "echo"
  sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
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
