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
  cost    = 0.8
  quality = 0.2
  hedge   = "p100"
}

profile "balanced" {
  cost        = 0.5
  quality     = 0.5
  hedge       = 95
  hedge_share = 0
}

profile "max" {
  cost        = 0.1
  quality     = 0.9
  hedge       = "30d"
  hedge_share = 5
}
