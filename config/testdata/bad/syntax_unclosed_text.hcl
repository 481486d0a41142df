provider "local" {
  plugin = "echo
}
