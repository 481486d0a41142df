include "b.hcl"
provider "a" {
  plugin = "echo"
}
