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
    input       = -0.01
    output      = 1000000.01
    cache_read  = 0.000000001
    cache_write = 1e-20
  }
}
