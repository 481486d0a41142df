provider "local" {
  plugin = "openai"
  config {
    base_url = "http://127.0.0.1:8000/v1"
    api_key  = null
  }
}

route "small" {
  provider       = "local"
  model          = "small"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
  }
}
