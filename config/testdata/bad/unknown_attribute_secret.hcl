provider "p" {
  plugin  = "openai"
  api_key = "sk-hunter2"
  config {
    base_url = "http://127.0.0.1/v1"
    apikey   = "sk-hunter2"
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
