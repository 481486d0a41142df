provider "local" {
  plugin = "echo"
}

route "all" {
  provider        = "local"
  model           = "echo"
  context_window  = 32768
  max_output      = 8192
  quality         = 0.45
  template_tokens = 32768
  price {
    input  = 0.05
    output = 0.20
  }
}

route "negative" {
  provider        = "local"
  model           = "echo"
  context_window  = 32768
  max_output      = 8192
  quality         = 0.45
  template_tokens = -1
  price {
    input  = 0.05
    output = 0.20
  }
}

route "text" {
  provider        = "local"
  model           = "echo"
  context_window  = 32768
  max_output      = 8192
  quality         = 0.45
  template_tokens = "1400"
  price {
    input  = 0.05
    output = 0.20
  }
}

route "part" {
  provider        = "local"
  model           = "echo"
  context_window  = 32768
  max_output      = 8192
  quality         = 0.45
  template_tokens = 0.5
  price {
    input  = 0.05
    output = 0.20
  }
}
