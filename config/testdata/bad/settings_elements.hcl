provider "p" {
  plugin = "everything"
  config {
    name   = null
    tags   = ["a", 1]
    labels = { a = null }
    count  = -1e29 * 10000
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
