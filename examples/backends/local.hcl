# Servers on this machine, on their usual ports; base_url says where else. The others: llamacpp, lmstudio.

provider "ollama" {
  plugin = "ollama" # Ollama's own API: models are loaded with room for the route's context_window, and no prompt is cut
  config {
    keep_alive         = "30m" # how long a model stays loaded
    first_byte_timeout = "4m"  # loading the model included; then the next route is tried
    # num_ctx  = 16384 # the room, where the route's context_window takes too much memory
    # think    = "off"
  }
}

provider "vllm" {
  plugin = "openai"
  config {
    preset             = "vllm"
    base_url           = "http://10.0.0.7:8000/v1"
    idle_timeout       = "2m" # a server that hangs fails its replies, and the next route is tried
    first_byte_timeout = "1m" # streams begin when the prompt is read
    always_stream      = true # for a proxy in between that cuts silent connections
  }
}

route "small" {
  provider       = "ollama"
  model          = "qwen3:4b"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  offers         = ["tools", "json_object"]
  price { # what the account pays, in US dollars per million tokens
    input  = 0.05
    output = 0.20
  }
}

route "large" {
  provider       = "vllm"
  model          = "Qwen/Qwen3-32B"
  context_window = 131072
  max_output     = 32768
  quality        = 0.7
  offers         = ["tools", "json_object", "json_schema"]
  price { # what the account pays, in US dollars per million tokens
    input  = 0.20
    output = 0.60
  }
}
