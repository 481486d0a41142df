# One configuration for two regions, in several files. FAREWAY_VAR_region=us and FAREWAY_VAR_margin=1.3 change it
# without an edit.
variable "region" {
  description = "where the upstreams are: eu or us"
  default     = "eu"
}
variable "margin" {
  description = "what accounts pay, as a multiple of what the upstream costs"
  default     = 1.2
}

locals {
  company  = "https://llm.${var.region}.example.com"
  ordinary = ["tools", "json_object"]
  requests = 600 # a minute, of a key
}

include "routes/*.hcl"
include "plans.hcl"

provider "local" {
  plugin = "openai"
  config {
    base_url = "${local.company}/v1"
    api_key  = env("LLM_KEY")
  }
}
