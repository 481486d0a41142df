provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  specialty      = ["graphic", "vision", 3]
  price {
    input  = 0.05
    output = 0.20
  }
}

special "graphics" {
  terms = ["", " svg", 7, null, "good"]
  above = 100000
}

special "graphics" {
  terms = "svg"
}

special "long_context" {
  above = 0
}

special "long-context" {
}

special {
}
