provider "p" {
  config {
    api_key = "%{hunter2}"
  }
}
