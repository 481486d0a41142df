# OpenAI's responses. The service is told to keep nothing; what the model thinks is hidden, and charged as output.

provider "openai" {
  plugin = "responses"
  config {
    api_key            = env("OPENAI_API_KEY")
    first_byte_timeout = "3m" # thinking included; then the next route is tried
    whole_reply_timeout = "4m" # of a reply in one piece, which begins when it is whole
  }
}

route "deep" {
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
