cache "memory" {
  size = "64MiB"
}

provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  reasons        = true
  price {
    input  = 0.05
    output = 0.20
  }
}

profile "budget" {
  cost         = 0.8
  quality      = 0.2
  keep_quality = 0.98
}

plan "starter" {
  suspended_after = 20
}
