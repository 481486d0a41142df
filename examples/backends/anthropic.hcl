# Anthropic's messages. The provider marks what of a prompt is to be cached, so the price has its three classes of input.

provider "claude" {
  plugin = "anthropic"
  config {
    api_key            = env("ANTHROPIC_API_KEY")
    first_byte_timeout = "3m" # thinking included; then the next route is tried
    whole_reply_timeout = "4m" # of a reply in one piece, which begins when it is whole
    # prompt_caching = "1h" # default: "5m"; or "off"
    # beta           = ["context-1m-2025-08-07"]
    # thinking_budget = -1 # think, as much as the model wants; before Claude 4.6 a number of tokens
    # effort          = "medium"
  }
}

route "deep" {
  provider       = "claude"
  model          = "claude-opus-4-5"
  context_window = 200000
  max_output     = 64000
  quality        = 0.95
  offers         = ["tools", "json_object", "json_schema"]
  price { # what the account pays, in US dollars per million tokens
    input       = 5
    output      = 25
    cache_read  = 0.50
    cache_write = 6.25
  }
}
