provider "p" {
  plugin = "everything"
  config {
    name        = 1
    temperature = "warm"
    count       = true
    careful     = "yes"
    tags        = "a"
    labels      = ["a"]
  }
}

route "small" {
  provider       = "p"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
  }
}
