include "x.hcl" { plans = "hunter2" }
include {}
include "a" "b" {}
provider "a" {
  plugin = "echo"
}
