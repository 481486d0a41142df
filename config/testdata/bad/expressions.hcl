gateway {
  namespace       = [for a in ["b"] : a]
  max_body        = [7, 4][*]
  max_body_memory = 1 / 0
  keepalive       = "${[]}"
  drain_timeout   = !1
  request_timeout = "${1e999999999}"
}

provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = [1][7]
  max_output     = 8192
  quality        = 0.45
  offers         = [for o in ["tools"] : o]
  price {
    input  = 0.05
    output = 0.20
  }
}
