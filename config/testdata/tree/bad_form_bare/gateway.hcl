include routes/*.hcl
provider "a" {
  plugin = "echo"
}
