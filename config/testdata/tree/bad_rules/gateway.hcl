provider "local" {
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
  mode  = "enforced"
  rules = "policy.hcl"
  rule "weapons" {
    terms = ["pipe bomb", ""]
  }
}

cache "memory" {
  size = "1KiB"
}

cache "redis" {
}

plan "strict" {
  suspend_after_declines {
    count  = 0
    window = "soon"
  }
}
