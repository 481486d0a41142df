# Hosted services that speak OpenAI's chat completions: a preset is a service's address and how it differs.
# The others: fireworks, mistral, together, xai.

provider "openai" {
  plugin = "openai"
  config {
    preset             = "openai"
    api_key            = env("OPENAI_API_KEY")
    first_byte_timeout = "3m" # thinking included; then the next route is tried
    whole_reply_timeout = "4m" # of a reply in one piece, which begins when it is whole
  }
}

provider "openrouter" {
  plugin = "openai"
  config {
    preset             = "openrouter"
    api_key            = env("OPENROUTER_API_KEY")
    first_byte_timeout = "3m"
    whole_reply_timeout = "4m"
    headers            = { "X-Title" = "Example" } # how OpenRouter lists this gateway
  }
}

provider "deepseek" {
  plugin = "openai"
  config {
    preset             = "deepseek"
    api_key            = file("deepseek.key") # relative to this file
    first_byte_timeout = "3m"
    whole_reply_timeout = "4m"
  }
}

route "gpt" {
  provider       = "openai"
  model          = "gpt-5"
  context_window = 400000
  max_output     = 128000
  quality        = 0.9
  offers         = ["tools", "json_object", "json_schema"]
  price { # what the account pays, in US dollars per million tokens
    input      = 1.25
    output     = 10
    cache_read = 0.125
  }
}

route "any" {
  provider       = "openrouter"
  model          = "openrouter/auto"
  context_window = 128000
  max_output     = 16000
  quality        = 0.7
  offers         = ["tools"]
  price { # what the account pays, in US dollars per million tokens
    input  = 2
    output = 8
  }
}

route "chat" {
  provider       = "deepseek"
  model          = "deepseek-chat"
  context_window = 128000
  max_output     = 8192
  quality        = 0.8
  offers         = ["tools", "json_object"]
  price { # what the account pays, in US dollars per million tokens
    input      = 0.28
    output     = 0.42
    cache_read = 0.028
  }
}
