limiter "redis" {
  url               = "redis://:hunter2@cache:6379"
  mode              = "sentinels"
  sentinel_password = "hunter2"
  prefix            = "a{b"
  timeout           = "10s"
  nodes             = 0
  ca                = "hunter2"
}

cache "redis" {
  url  = "redis://one:6379,two:6379"
  size = "64MiB"
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
