gateway {
  client_models = ["^acme-.*$", "^acme-[a-z]{1,9}$"]
}
provider "local" {
  plugin = "echo"
}

provider "spare" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 4096
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
    above "1" {
      input  = 0.10
      output = 0.40
    }
    above "100000000" {
      input  = 0.10
      output = 0.40
    }
    above "4095" {
      input  = 0.10
      output = 0.40
    }
    above "4096" {
      input  = 0.10
      output = 0.40
    }
  }
}

route "unasked" {
  provider       = "local"
  model          = "echo"
  context_window = 4096
  max_output     = 1024
  quality        = 0.45
  unsupported    = ["temperature", "stream_options"]
  price {
    input  = 0.05
    output = 0.20
  }
}

route "estimated" {
  provider       = "local"
  model          = "echo"
  context_window = 4096
  max_output     = 1024
  quality        = 0.45
  unsupported    = ["stream_options"]
  metering       = "estimate"
  price {
    input  = 0.05
    output = 0.20
  }
}
