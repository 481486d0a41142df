provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = 5
  model          = true
  context_window = "32768"
  max_output     = [1]
  quality        = "good"
  offers         = "tools"
  metering       = 1
  price {
    input  = "0.05"
    output = true
  }
}
