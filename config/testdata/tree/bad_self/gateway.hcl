include "*.hcl"
provider "a" {
  plugin = "echo"
}
