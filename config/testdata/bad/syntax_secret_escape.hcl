provider "p" {
  plugin = "openai"
  config {
    api_key = "sk-hunter2-\q" # was sk-hunter2-old
  }
}
