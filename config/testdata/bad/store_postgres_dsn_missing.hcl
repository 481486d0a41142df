store "postgres" {}

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
