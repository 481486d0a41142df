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

strategy "unknown" {
  kind = "vote"
}

strategy "no_judge" {
  kind  = "panel"
  seats = ["small", "deep"]
}

strategy "no_steps" {
  kind = "cascade"
}

strategy "too_much" {
  kind     = "agree"
  seats    = ["small", "deep"]
  escalate = "deep"
  judge    = "deep"
}

strategy "unvalidated" {
  kind      = "cascade"
  steps     = ["small", "deep"]
  validator = "toolarguments"
}
