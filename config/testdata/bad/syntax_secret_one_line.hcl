provider "p" { config { api_key = "sk-hunter2", base_url = "x" } }
