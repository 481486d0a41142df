# Models on Azure: the route's model is the name of the deployment.

provider "azure" {
  plugin = "openai"
  config {
    preset             = "azure"
    base_url           = "https://example.openai.azure.com"
    api_key            = env("AZURE_API_KEY")
    first_byte_timeout = "3m" # thinking included; then the next route is tried
    whole_reply_timeout = "4m" # of a reply in one piece, which begins when it is whole
    # api_version = "v1" # or another dated one; the default is the latest dated release that is not a preview
  }
}

route "deployed" {
  provider       = "azure"
  model          = "my-deployment"
  context_window = 128000
  max_output     = 16384
  quality        = 0.8
  offers         = ["tools", "json_object", "json_schema"]
  price { # what the account pays, in US dollars per million tokens
    input  = 2.50
    output = 10
  }
}
