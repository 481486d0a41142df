provider "local" {
  plugin     = "echo"
  max_memory = "15MiB"
}

provider "other" {
  plugin     = "echo"
  max_memory = "1GB"
}

provider "third" {
  plugin     = "echo"
  max_memory = "16MiB"
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
