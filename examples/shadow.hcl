# Is the new, cheaper model good enough? One request in fifty that the old one answers is sent to the new one as well, for
# comparison only. Metrics (fareway_shadow_*), `usage REQUEST_ID` and `explain REQUEST_ID` say how it did.

provider "local" {
  plugin = "echo"
}

route "proven" {
  provider       = "local"
  model          = "echo-deep"
  context_window = 131072
  max_output     = 16384
  quality        = 0.9
  offers         = ["tools"]
  price {
    input  = 3
    output = 15
  }
}

# Nothing is known of its quality yet, so nobody is sent there for good.
route "candidate" {
  provider       = "local"
  model          = "echo"
  context_window = 131072
  max_output     = 16384
  quality        = 0.01
  offers         = ["tools"]
  price {
    input  = 0.30
    output = 1.20
  }
}

profile "max" {
  cost    = 0
  quality = 1
  shadow {
    route = "candidate"
    share = 0.02
  }
}
