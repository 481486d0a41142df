locals {
  a     = local.b + 1
  b     = local.c["x"]
  c     = { x = local.a }
  hangs = local.a
  self  = "${local.self}"
  fine  = 7
  far   = local.misspelt
  div   = 1 / local.word
  word  = "sk-hunter2"
  other = ["sk-hunter2", env("SECRET_TOKEN"), upper(sk-hunter2)]
  nope  = local
  deep  = local.map.missing
  map   = { x = 1 }
}
locals {
  fine = 8
  inner {
    secret = "sk-hunter2"
  }
}
locals "labelled" {}

provider "local" {
  plugin = "echo"
}
route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 3
    output = 0.20
  }
}

plan "p" {
  spend_cap_credits   = local.div
  token_budget        = local.fin
  fair_use_microcents = vars.x
  concurrent_requests = local.word
}
