locals {
  many    = upper("sk-hunter2", "b")
  few     = replace("sk-hunter2")
  none    = min()
  wrong   = tonumber("sk-hunter2")
  secret  = tonumber(env("SECRET_TOKEN"))
  json    = jsondecode(env("SECRET_TOKEN"))
  list    = concat(["a"], "sk-hunter2")
  map     = merge({ a = 1 }, ["sk-hunter2"])
  nothing = coalesce(null, null)
  unknown = uper("sk-hunter2")
  huge    = tonumber("1e99999999")
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
    input  = 3
    output = 0.20
  }
}
