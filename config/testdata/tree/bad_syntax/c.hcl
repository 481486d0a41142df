provider "x" {
  config { api_key = "sk-hunter2 }
}
