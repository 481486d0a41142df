# Models on Amazon Bedrock. Credentials come from here alone: neither the environment's nor the machine's role are asked.

provider "bedrock" {
  plugin = "bedrock"
  config {
    region             = "eu-central-1"
    access_key_id      = env("AWS_ACCESS_KEY_ID")
    secret_access_key  = env("AWS_SECRET_ACCESS_KEY")
    first_byte_timeout = "3m" # thinking included; then the next route is tried
    # profile_file    = "/run/aws/credentials" # in place of both: a file that something else renews
    # api_key         = env("AWS_BEARER_TOKEN_BEDROCK") # or a Bedrock API key
    # base_url        = "https://vpce-0123.bedrock-runtime.eu-central-1.vpce.amazonaws.com"
  }
}

route "sonnet" {
  provider       = "bedrock"
  model          = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0" # the model's id, or that of an inference profile
  context_window = 200000
  max_output     = 64000
  quality        = 0.9
  offers         = ["tools"]
  price { # what the account pays, in US dollars per million tokens
    input       = 3.30
    output      = 16.50
    cache_read  = 0.33
    cache_write = 4.125
  }
}
