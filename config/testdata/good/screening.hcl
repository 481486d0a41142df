provider "local" {
  plugin = "echo"
}

provider "guard" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
  }
}

screening {
  mode     = "enforce"
  provider = "guard"
  on_error = "allow"
  max_text = "64KiB"
  rule "weapons" {
    terms = ["pipe bomb"]
  }
}
