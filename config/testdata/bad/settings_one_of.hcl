provider "p" {
  plugin = "everything"
  config {
    name     = "a"
    preset   = "grok"
    patience = "soon"
  }
}

provider "q" {
  plugin = "everything"
  config {
    name     = "a"
    preset   = env("SECRET_TOKEN")
    patience = 5
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
