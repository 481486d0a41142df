# Prices by the length of a request, and from a day on.
provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 1000000
  max_output     = 8192
  quality        = 0.5
  price "2027-06-01" {
    input  = 0.04
    output = 0.16
  }
  price {
    input      = 0.05
    output     = 0.20
    cache_read = 0.01
    above "500000" {
      input  = 0.20
      output = 0.60
    }
    above "272000" {
      input      = 0.10
      output     = 0.30
      cache_read = 0.02
    }
  }
  price "2027-01-01" {
    input  = 0.06
    output = 0.25
    above "272000" {
      input  = 0.12
      output = 0.35
    }
  }
}

route "with_cost" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.5
  price {
    input  = 0.05
    output = 0.20
  }
  cost {
    input  = 0.04
    output = 0.16
    above "1000" {
      input  = 0.05
      output = 0.17
    }
  }
  cost "2027-01-01" {
    input  = 0.03
    output = 0.15
  }
}
