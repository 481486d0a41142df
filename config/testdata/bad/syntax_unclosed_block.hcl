provider "local" {
  plugin = "echo"
}

route "small" {
  provider = "local"
