# A limiter and a cache that several nodes share.

limiter "redis" {
  url               = env("BASE_URL_REDIS")
  mode              = "sentinel"
  master            = "mymaster"
  sentinel_password = env("SECRET_TOKEN")
  nodes             = 3
}

cache "redis" {
  url     = "unix:///run/redis/cache.sock?db=2"
  prefix  = "cache:"
  timeout = "20ms"
  ttl     = "10m"
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
