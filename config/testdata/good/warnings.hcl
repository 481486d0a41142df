gateway {
  client_models = ["^acme-.*$", "^acme-[a-z]{1,9}$"]
}
provider "local" {
  plugin = "echo"
}

provider "spare" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 4096
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
  }
}
