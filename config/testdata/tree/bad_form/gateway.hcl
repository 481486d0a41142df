include = "routes/*.hcl"
provider "a" {
  plugin = "echo"
}
gateway {
  include "x.hcl" {}
}
