route "x" {
  provider       = "first"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
  }
}
provider "keyed" {
  plugin = "anthropic"
  config {
    api_key = file("key.txt")
  }
}
route "keyed" {
  provider       = "keyed"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
  }
}
