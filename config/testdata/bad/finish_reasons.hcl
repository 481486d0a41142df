provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  finish_reasons = { eod = "done", "the end" = "stop", Stop = "length", a = true, b = null, c = "stop", C = "stop", d = "stop", d = "length", "" = "stop", e = "stopp" }
  price {
    input  = 0.05
    output = 0.20
  }
}

route "large" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  finish_reasons = ["eod"]
  finish_reason  = { eod = "stop" }
  price {
    input  = 0.05
    output = 0.20
  }
}
