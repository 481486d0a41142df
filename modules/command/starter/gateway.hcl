# What this gateway offers: providers, routes and their prices, and plans.
# `fareway gateway check FILE` checks it. The Caddyfile beside it says where the gateway listens.
# Every block and attribute is explained in https://github.com/fareway/fareway/tree/main/config.

# A provider is a process that speaks to an upstream service. This one needs no upstream: it answers from the
# prompt, so that everything can be tried, and costs what its routes say.
provider "echo" {
  plugin = "echo"
}

# A real one: any upstream that speaks OpenAI's chat completions, such as OpenAI itself, OpenRouter, Ollama, vLLM
# or llama.cpp's server. Take the # away, here and at a route below. A key is never written in this file: it
# comes from the environment, env("NAME"), or from a file, file("path").
#
# provider "openai" {
#   plugin = "openai"
#   config {
#     preset              = "openai"              # or "openrouter", "groq", ...; "ollama", without an api_key
#     api_key             = env("OPENAI_API_KEY")
#     first_byte_timeout  = "3m"                  # silent for so long, it has failed: the next route is tried
#     whole_reply_timeout = "4m"                  # of a reply in one piece, which begins when it is whole
#   }
# }

# A route is one model of a provider. The gateway chooses one for each request, by its price and its quality; when
# it fails before anything was shown, the next best is tried.
route "echo-small" {
  provider       = "echo"
  model          = "small"              # the upstream's name of the model
  context_window = 32768                # tokens
  max_output     = 8192                 # tokens
  quality        = 0.45                 # 0 to 1, among your routes
  offers         = ["tools", "json_object"]

  price {                               # what the account pays, in US dollars for a million tokens
    input  = 0.05
    output = 0.20
  }
}

route "echo-large" {
  provider       = "echo"
  model          = "large"
  context_window = 200000
  max_output     = 32768
  quality        = 0.90
  offers         = ["tools", "json_object"]

  price {
    input      = 2.00
    output     = 8.00
    cache_read = 0.50
  }
}

# route "gpt-mini" {
#   provider       = "openai"
#   model          = "gpt-5-mini"
#   context_window = 272000
#   max_output     = 128000
#   quality        = 0.80
#   offers         = ["tools", "json_object", "json_schema"]
#
#   price {
#     input      = 0.25
#     cache_read = 0.025
#     output     = 2.00
#   }
# }

# The pages at /portal/, where accounts see their money and operators their gateway. `fareway gateway up` prints a link for the
# first operator; without this block there are no pages.
portal {}

# A plan is what accounts share: fareway gateway account create NAME --plan trial
plan "trial" {
  monthly_credits = 0                   # 1 credit = 1 US cent

  # Limits. What is left out is as here; 0 is no limit.
  # requests_per_minute {
  #   key     = 600
  #   account = 2400
  #   address = 6000                    # of clients, over all accounts
  # }
  # spend_cap_credits   = 0             # a month; for good where monthly_credits is 0
  # token_budget        = 0             # the same
  # concurrent_requests = 64
}
