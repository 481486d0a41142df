route "large" {
  provider       = "local"
  model          = var.region == "eu" ? "mistral-large" : "llama-70b"
  context_window = 128 * 1024
  max_output     = 16384
  quality        = 0.8
  offers         = concat(local.ordinary, ["json_schema"])
  price {
    input  = local.small.input * 20 * var.margin
    output = local.small.output * 20 * var.margin
  }
}
