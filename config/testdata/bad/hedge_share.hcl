provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "small"
  context_window = 32768
  max_output     = 8192
  quality        = 0.5
  price {
    input  = 0.05
    output = 0.20
  }
}

profile "budget" {
  cost        = 0.8
  quality     = 0.2
  hedge_share = 0.1
}
