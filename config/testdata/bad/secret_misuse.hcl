provider "p" {
  plugin = "everything"
  config {
    name     = "x"
    token    = sk-hunter2
    prefixed = env("sk-hunter2")
    tokens   = env("SECRET_TOKEN")
    headers  = 5
    endpoint { token = upper("sk-hunter2") }
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
