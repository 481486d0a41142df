# Several calls for one reply. Try it: fareway gateway explain request.json --hcl examples/strategies.hcl

provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.5
  offers         = ["tools"]
  price {
    input  = 0.05
    output = 0.20
  }
}

route "deep" {
  provider       = "local"
  model          = "echo-deep"
  context_window = 131072
  max_output     = 16384
  quality        = 0.9
  offers         = ["tools"]
  price {
    input  = 3
    output = 15
  }
}

# A hard question to the dearest profile is worth three calls.
strategy "careful" {
  when  = profile == "max" && request.difficulty > 0.45
  kind  = "panel"
  seats = ["small", "deep"]
  judge = "deep"
}

# A cheap model may call tools, as long as its calls fit their schemas.
strategy "climb" {
  when      = request.tools && profile != "max"
  kind      = "cascade"
  steps     = ["small", "deep"]
  validator = "tool_arguments"
}

breaker {
}
