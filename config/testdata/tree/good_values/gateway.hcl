# Everything that a value can be made of.
variable "region" {
  default     = "eu"
  description = "where the upstreams are"
}
variable "COUNT" {}
variable "number" {
  default = 1
}
variable "flag" {
  default = false
}
variable "list" {
  default = ["a"]
}
variable "key" {
  default = env("SECRET_TOKEN")
}
variable "outside_key" {}

locals {
  dear    = local.cheap * 4 # further down, and in another file
  cheap   = 0.05
  window  = 32 * 1024
  both    = concat(local.tools, ["json_schema"])
  headers = merge({ "x-region" = upper(var.region) }, { x-key = var.key })
  prices  = jsondecode(file("prices.json"))
}

include "more/*.hcl"

provider "p" {
  plugin = "everything"
  config {
    name        = "${var.region}-1"
    token       = local.key
    prefixed    = "Bearer ${trimspace(var.key)}"
    tokens      = concat([var.key], split(",", var.outside_key))
    headers     = { authorization = "Bearer ${var.key}" }
    count       = var.COUNT
    careful     = var.flag
    tags        = var.list
    labels      = { region = var.region, size = tostring(length(local.both)) }
    temperature = coalesce(null, local.prices.temperature)
    endpoint {
      url = replace("http://REGION.example/v1", "REGION", lower(var.region))
    }
  }
}

route "r" {
  provider       = "p"
  model          = var.region == "eu" ? "eu-model" : "us-model"
  context_window = local.window
  max_output     = min(local.window / 4, 8000)
  quality        = var.number / 100
  offers         = local.both
  max_concurrent = var.COUNT
  price {
    input      = local.cheap * 2
    output     = local.dear
    cache_read = local.prices["read"]
  }
}

plan "p" {
  spend_cap_credits = 100 * (var.flag ? 2 : 1)
}
