provider "local" {
  plugin = "echo"
}

route "none" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  reasons        = "sometimes"
  price {
    input  = 0.05
    output = 0.20
  }
}

route "parts" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality {
    code   = 1.5
    poetry = 0.9
    weight = 0
  }
  price {
    input  = 0.05
    output = 0.20
  }
}

profile "max" {
  cost         = 0.1
  quality      = 0.9
  keep_quality = 0
}

profile "budget" {
  cost         = 0.8
  quality      = 0.2
  keep_quality = 98
}

plan "careful" {
  requires {
    region    = "eu"
    retention = 0
    country   = "de"
  }
}

plan "long" {
  requires {
    region    = [""]
    retention = "9000d"
  }
}

affinity {
  mode = "sometimes"
  ttl  = "0s"
}

decision_log {
  mode         = "sometimes"
  keep         = "367d"
  max_requests = 0
}

breaker {
  failures = 65
  window   = "0s"
  opens    = "5s"
}

retry_budget {
  ratio          = 1.5
  min_per_second = -1
}

route "crowded" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.5
  max_concurrent = "automatic"
  breaker {
    open_for = 5
  }
  price {
    input  = 0.05
    output = 0.20
  }
}
