# What this gateway offers. `fareway gateway check /etc/fareway/gateway.hcl` says what is wrong with it, and a saved file
# takes effect by itself. `fareway gateway init` writes one for other services, and examples/backends has many.

provider "openai" {
  plugin = "openai"
  config {
    preset              = "openai"
    api_key             = env("OPENAI_API_KEY")   # in /etc/fareway/environment
    first_byte_timeout  = "3m"
    whole_reply_timeout = "4m"
  }
}

route "gpt-mini" {
  provider       = "openai"
  model          = "gpt-5-mini"
  context_window = 272000
  max_output     = 128000
  quality        = 0.80
  offers         = ["tools", "json_object", "json_schema"]

  price {                       # what accounts pay, in US dollars for a million tokens
    input      = 0.30
    cache_read = 0.03
    output     = 2.40
  }

  cost {                        # what it costs you: `usage` shows the margin, and a drift of it
    input      = 0.25
    cache_read = 0.025
    output     = 2.00
  }
}

portal {}                       # pages at /portal/ for accounts and operators, who come in by a link: see the README

plan "starter" {
  monthly_credits = 0           # nothing is given: accounts are topped up by `credit add`

  requests_per_minute {
    key     = 600
    account = 1200
    address = 3000
  }
  concurrent_requests = 32
}
