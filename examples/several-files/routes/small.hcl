locals {
  small = { input = 0.05, output = 0.20 } # what it costs us
}

route "small" {
  provider       = "local"
  model          = "qwen3:4b"
  context_window = 32 * 1024
  max_output     = 8192
  quality        = 0.45
  offers         = local.ordinary
  price {
    input  = local.small.input * var.margin
    output = local.small.output * var.margin
  }
  cost {
    input  = local.small.input
    output = local.small.output
  }
}
