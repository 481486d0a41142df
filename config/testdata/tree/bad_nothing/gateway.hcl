provider "a" {
  plugin = "echo"
}
include "routes/*.hcl"
include "plans.hcl"
include "a[.hcl"
include ""
