provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "m"
  context_window = 1000
  max_output     = 100
  quality        = 0.5
  price {
    input  = 1
    output = 1
  }
}

telemetry {
  metric  = true
  content = "yes"
}
