gateway {
  namespace       = env("SECRET_TOKEN")
  default_profile = env("SECRET_TOKEN")
  keepalive       = env("SECRET_TOKEN")
  max_body        = env("SECRET_TOKEN")
}

provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = env("SECRET_TOKEN")
  model          = "echo"
  context_window = env("SECRET_TOKEN")
  max_output     = env("ENDLESS")
  quality        = env("SECRET_TOKEN")
  offers         = [env("SECRET_TOKEN")]
  metering       = file("../secrets/key.txt")
  price {
    input  = env("SECRET_TOKEN")
    output = file("../secrets/key.txt")
  }
}
