# Every way in which a secret may enter, and every place from which it must not leave again.

gateway {
  plugin_dir = "plugins"
}

provider "all" {
  plugin = "everything"
  sha256 = "00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff"
  config {
    name        = "plain"
    token       = env("SECRET_TOKEN")
    prefixed    = "Bearer ${env("SECRET_TOKEN")}"
    tokens      = [env("SECRET_TOKEN"), file("../secrets/key.txt")]
    headers     = { "x-auth" = env("SECRET_TOKEN"), "x-key" = file("../secrets/key.txt") }
    temperature = 0.1 * 3
    count       = env("COUNT")
    careful     = env("CAREFUL")
    tags        = ["a", "b"]
    labels      = { team = "red", "cost centre" = "42" }
    endpoint {
      url   = "http://user:${env("SECRET_TOKEN")}@host/"
      token = file("../secrets/key.txt")
    }
    retry {
      after = "1s"
    }
    retry {
      after = "2s"
    }
  }
}

provider "openai" {
  plugin = "openai"
  config {
    base_url = env("BASE_URL")
    api_key  = <<-EOT
      ${env("SECRET_TOKEN")}
    EOT
  }
  start_timeout = "1m30s"
}

route "small" {
  provider       = "all"
  model          = env("MODEL")
  context_window = env("WINDOW")
  max_output     = 32 * 1024
  quality        = env("QUALITY")
  metering       = "estimate"
  timeout        = "250ms"
  price {
    input       = env("PRICE")
    output      = 0.1 * 3
    cache_read  = 0
    cache_write = 0.00000001
  }
}

route "large" {
  provider       = "openai"
  model          = "m"
  context_window = 92233
  max_output     = 1
  quality        = 1
  price {
    input  = 1000000
    output = 12.34567891
  }
}
