provider "several" {
  plugin = "openai"
  config {
    base_url = "http://h/v1"
  }
  key "main" {
    api_key = env("SECRET_TOKEN")
    weight  = 2
  }
  key "spare" {
    api_key = file("../secrets/key.txt")
  }
  key "spare-again" {
    api_key = file("../secrets/key.txt")
  }
}

provider "needed" {
  plugin = "anthropic"
  key "only" {
    api_key = env("ANTHROPIC_API_KEY")
  }
}

route "small" {
  provider       = "several"
  model          = "m"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 3
    output = 0.20
  }
}
route "third" {
  provider       = "needed"
  model          = "m"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 3
    output = 0.20
  }
}
