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

strategy "unknown_fact" {
  when  = request.dificulty > 0.7
  kind  = "single"
  steps = ["small"]
}

strategy "not_a_fact" {
  when  = requests.difficulty > 0.7
  kind  = "single"
  steps = ["small"]
}

strategy "number" {
  when  = request.input_tokens
  kind  = "single"
  steps = ["small"]
}

strategy "text" {
  when  = request.input_tokens + profile > 2
  kind  = "single"
  steps = ["small"]
}

strategy "whole" {
  when  = request
  kind  = "single"
  steps = ["small"]
}

strategy "part" {
  when  = profile.name == "max"
  kind  = "single"
  steps = ["small"]
}

strategy "from_outside" {
  when  = account.name == env("NAME")
  kind  = "single"
  steps = ["small"]
}

locals {
  misspelt = "json_shema"
}

strategy "another_profile" {
  when  = profile == "maxx" || request.turns > 3
  kind  = "single"
  steps = ["small"]
}

strategy "another_format" {
  when  = !(local.misspelt != (request.format)) && profile != account.name
  kind  = "single"
  steps = ["small"]
}

strategy "far_from_all" {
  when  = request.format == "xml"
  kind  = "single"
  steps = ["small"]
}

strategy "one_of_several" {
  when  = contains(["max", "balancd"], profile)
  kind  = "single"
  steps = ["small"]
}

locals {
  outside = env("SECRET_TOKEN")
}

strategy "from_outside_by_name" {
  when  = profile == local.outside
  kind  = "single"
  steps = ["small"]
}

strategy "a_number" {
  when  = profile == 3
  kind  = "single"
  steps = ["small"]
}

strategy "percents" {
  when  = request.tools && (request.difficulty) > 70 || -1 == request.kind.code
  kind  = "single"
  steps = ["small"]
}

strategy "not_compared" {
  when  = request.difficulty + 2 > 2.7 && request.kind.math >= 1 && request.turns > 70
  kind  = "single"
  steps = ["small"]
}
