provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality {
    default = 0.45
  }
  price {
    input  = 0.05
    output = 0.20
  }
}

route "deep" {
  provider       = "local"
  model          = "echo"
  context_window = 200000
  max_output     = 64000
  reasons        = true
  quality {
    default = 0.95
    code    = 0.97
    math    = 0
    tools   = 0.96
    writing = 1
    weight  = 40
  }
  price {
    input  = 5
    output = 25
  }
}

profile "balanced" {
  cost         = 0.5
  quality      = 0.5
  keep_quality = 0.98
  hedge        = "p95"
}
profile "max" {
  cost        = 0.1
  quality     = 0.9
  hedge       = "800ms"
  hedge_share = 0.1
}

route "here" {
  provider       = "local"
  model          = "echo"
  context_window = 200000
  max_output     = 64000
  quality        = 0.5
  region         = "eu"
  retention      = "none"

  template_tokens = 199999
  price {
    input  = 5
    output = 25
  }
}

route "there" {
  provider       = "local"
  model          = "echo"
  context_window = 200000
  max_output     = 64000
  quality        = 0.5
  region         = "us"
  retention      = "30d"
  price {
    input  = 5
    output = 25
  }
}

plan "careful" {
  requires {
    region    = ["eu", "ch"]
    retention = "none"
  }
}

plan "month" {
  requires {
    retention = "30d"
  }
}

breaker {
  failures    = 3
  window      = "1m"
  open_for    = "5s"
  outliers    = false
  retry_after = false
}

retry_budget {
  ratio          = 0.1
  min_per_second = 0
}

route "own" {
  provider       = "local"
  model          = "echo"
  context_window = 200000
  max_output     = 64000
  quality        = 0.5
  max_concurrent = "auto"
  breaker {
    failures = 0
  }
  price {
    input  = 5
    output = 25
  }
}

affinity {
  mode = "off"
  ttl  = "10m"
}

decision_log {
  mode         = "off"
  keep         = "366d"
  max_requests = 100000000
}
