provider "local" {
  plugin = "echo"
}

route "unsaid" {
  provider       = "local"
  model          = "echo"
  context_window = 200000
  max_output     = 64000
  quality        = 0.5
  price {
    input  = 5
    output = 25
  }
}

plan "careful" {
  requires {
    retention = "1d"
  }
}
