# A service of one's own, behind a proxy, with a private authority and client certificates.

provider "private" {
  plugin = "openai"
  carry  = "process" # all its traffic stays in the provider's process
  config {
    base_url           = "https://models.internal.example.com/v1"
    api_key            = env("PRIVATE_API_KEY")
    ca                 = file("ca.pem")
    client_certificate = file("client.pem")
    client_key         = file("client.key")
    proxy              = "http://proxy.internal.example.com:3128"
    proxy_credentials  = env("PROXY_CREDENTIALS") # USER:PASSWORD
    connect_timeout    = "3s"
    first_byte_timeout = "30s"
    always_stream      = true # so that first_byte_timeout holds for replies in one piece, too
  }
}

route "private" {
  provider       = "private"
  model          = "llama-3.3-70b"
  context_window = 131072
  max_output     = 8192
  quality        = 0.6
  offers         = ["tools"]
  price { # what the account pays, in US dollars per million tokens
    input  = 0.30
    output = 0.30
  }
}
