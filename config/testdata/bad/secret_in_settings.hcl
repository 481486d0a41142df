provider "p" {
  plugin = "everything"
  config {
    name        = [env("SECRET_TOKEN")]
    temperature = env("SECRET_TOKEN")
    careful     = file("../secrets/key.txt")
    count       = "${env("SECRET_TOKEN")}" + 1
    tags        = [env(env("SECRET_TOKEN")), file(env("SECRET_TOKEN"))]
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
