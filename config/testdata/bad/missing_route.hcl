provider "local" {
  plugin = "echo"
}
