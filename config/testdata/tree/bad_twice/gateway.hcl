include "b.hcl"
include "[bc].hcl"
provider "a" {
  plugin = "echo"
}
