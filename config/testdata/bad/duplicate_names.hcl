provider "local" {
  plugin = "echo"
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
  price {
    input  = 0.05
    output = 0.20
  }
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

plan "a" {}
plan "a" {}

profile "max" {
  cost    = 1
  quality = 1
}
profile "max" {
  cost    = 1
  quality = 1
}
