provider "several" {
  plugin = "openai"
  config {
    base_url = "http://h/v1"
    api_key  = env("SECRET_TOKEN")
  }
  key "both" {
    api_key = env("SECRET_TOKEN")
  }
  key "empty" {
  }
  key "weight-alone" {
    weight = 0
  }
  key "elsewhere" {
    base_url = "http://other/v1"
    api_kye  = env("SECRET_TOKEN")
  }
  key "both" {
    api_key = "written-out"
  }
}

provider "none" {
  plugin = "echo"
  key "main" {
    api_key = env("SECRET_TOKEN")
  }
}

provider "needed" {
  plugin = "anthropic"
  key "a" {
    weight = 2
  }
  key {
    api_key = env("SECRET_TOKEN")
  }
  key "heavy" {
    api_key = env("UNSET")
    weight  = 1001
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
route "other" {
  provider       = "none"
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
