variable "literal" {
  default = "sk-hunter2"
}
locals {
  literal = "sk-hunter2"
  mixed   = [env("SECRET_TOKEN"), "sk-hunter2"]
}
provider "p" {
  plugin = "everything"
  config {
    name     = "n"
    token    = var.literal
    prefixed = upper(local.literal)
    tokens   = concat([env("SECRET_TOKEN")], local.mixed)
    headers  = merge({ a = env("SECRET_TOKEN") }, { b = local.literal })
    endpoint {
      url   = "u"
      token = coalesce(null, local.literal, env("SECRET_TOKEN"))
    }
  }
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
