provider "p" {
  plugin = "openai"
  config {
    api_key = "sk-hunter2
  }
}
