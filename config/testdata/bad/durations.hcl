gateway {
  request_timeout = "10 minutes"
  keepalive       = 15
  drain_timeout   = "0s"
}

provider "local" {
  plugin        = "echo"
  start_timeout = "-1s"
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  timeout        = "25h"
  price {
    input  = 0.05
    output = 0.20
  }
}
