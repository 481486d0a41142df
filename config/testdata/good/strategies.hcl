locals {
  hard = 0.7
}

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

strategy "careful" {
  when  = request.difficulty > local.hard && profile == "max"
  kind  = "panel"
  seats = ["small", "deep"]
  judge = "deep"
}

strategy "climb" {
  when      = request.tools && contains(["pro", "team"], account.plan)
  kind      = "cascade"
  steps     = ["small", "deep"]
  validator = "tool_arguments"
}

strategy "asked" {
  when      = request.kind.code >= 0.5 && request.input_tokens < 4000 && request.allowance == 0
  kind      = "cascade"
  steps     = ["small", "deep"]
  validator = "deep"
}

strategy "two_heads" {
  kind     = "agree"
  seats    = ["small", "deep"]
  escalate = "deep"
}

strategy "in_order" {
  when  = account.name == "ann" || request.format == "json_schema" || request.turns > 3
  kind  = "single"
  steps = ["small", "deep"]
}

strategy "plain" {
  kind  = "cascade"
  steps = ["small", "deep"]
}
