provider "local" {
  plugin = "openai"
  config {
    base_url = "http://127.0.0.1:1/v1"
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

predictor {
  provider = "local"
  deadline = "1m"
  max_text = "1"
}
