provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 2000
  max_output     = 1000
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
  }
}

route "deep" {
  provider       = "local"
  model          = "echo-2"
  context_window = 131072
  max_output     = 8192
  quality        = 0.9
  price {
    input  = 5
    output = 20
  }
}

strategy "loop" {
  kind  = "cascade"
  steps = ["loop", "deep"]
}

strategy "deep" {
  kind  = "single"
  steps = ["smal"]
}

strategy "no_room" {
  kind  = "panel"
  seats = ["deep", "small"]
  judge = "small"
}

strategy "tight" {
  kind      = "cascade"
  steps     = ["deep", "small"]
  validator = "small"
}
