route "a" {
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
include "more/[xy].hcl" # nested, relative to this file
route "after" {
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
