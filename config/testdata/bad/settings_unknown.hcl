provider "p" {
  plugin = "openai"
  config {
    base_ulr = "http://127.0.0.1/v1"
    proxy {
    }
  }
}

route "small" {
  provider       = "p"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
  }
}
