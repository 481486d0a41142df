provider "p" {
  api_key = "sk-hunter2" "again"
}
