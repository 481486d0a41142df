provider "p" {
  plugin = "everything"
  config {
    name     = "x"
    token    = "sk-hunter2"
    prefixed = "Bearer ${"hunter2"}"
    tokens   = [env("SECRET_TOKEN"), "sk-hunter2"]
    headers  = { x-key = "sk-hunter2" }
    endpoint {
      url   = "x"
      token = <<-EOT
        sk-hunter2
      EOT
    }
  }
}

route "small" {
  provider       = "p"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
  }
}
