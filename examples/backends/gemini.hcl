# Google's models. What is thought is hidden, and charged as output. Prompts are cached by the service itself: set
# cache_read in the price.

provider "gemini" {
  plugin = "gemini"
  config {
    api_key            = env("GEMINI_API_KEY")
    first_byte_timeout = "3m" # thinking included; then the next route is tried
    # By Vertex AI instead, where a service account pays:
    # service_account = file("service-account.json")
    # location        = "europe-west4" # default: "global"
    # thinking_level = "low" # Gemini 3; thinking_budget = 0 before it
  }
}

route "google" {
  provider       = "gemini"
  model          = "gemini-3-pro-preview"
  context_window = 1048576
  max_output     = 65536
  quality        = 0.9
  offers         = ["tools", "json_object", "json_schema"]
  price { # what the account pays, in US dollars per million tokens
    input      = 2
    output     = 12
    cache_read = 0.20
    above "200000" {
      input      = 4
      output     = 18
      cache_read = 0.40
    }
  }
}
