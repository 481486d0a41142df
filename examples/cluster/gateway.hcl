# What all three gateways load. They have one ledger, one set of limits and one cache; where these are comes from the
# environment, as it does for the upstream.
gateway {
  drain_timeout = "30s"
}

store "postgres" {
  dsn     = env("DATABASE_URL") # all members; the primary is the one that takes writes (target_session_attrs=read-write)
  standby = "required"          # no charge that one machine could lose, also where somebody has changed Patroni's settings
}

limiter "redis" {
  url    = env("REDIS_URL")
  mode   = "sentinel"
  master = "fareway"
  nodes  = 3
}

cache "redis" {
  url    = env("REDIS_URL") # a server of its own, with another policy of eviction, is better: see config/README.md
  mode   = "sentinel"
  master = "fareway"
}

plan "team" {
  requests_per_minute {
    key     = 0
    account = 6000
    address = 0
  }
  concurrent_requests = 200
}

provider "upstream" {
  plugin = "openai"
  config {
    base_url            = env("UPSTREAM_URL")
    first_byte_timeout  = "10s"
    whole_reply_timeout = "20s"
  }
}

route "standard" {
  provider       = "upstream"
  model          = "standard"
  context_window = 32768
  max_output     = 8192
  quality        = 0.5

  price {
    input  = 100
    output = 500
  }
}
