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

profile "balance" {
  cost    = 0.5
  quality = 0.5
}

profile "max" {
  cost    = 0
  quality = 0
}

profile "budget" {
  cost    = -1
  quality = "high"
}
