# The order of routes is that of the includes.
provider "first" {
  plugin = "echo"
}
include "routes/*.hcl"
route "last" {
  provider       = "first"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
  }
}
include "parts/settings.hcl" {}
