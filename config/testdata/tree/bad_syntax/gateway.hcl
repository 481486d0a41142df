provider "a" {
  plugin = "echo"
}
include "b.hcl"
include "c.hcl"
