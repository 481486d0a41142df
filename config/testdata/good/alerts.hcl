alerts {
  balance_low_credits = 500
  cap_near_percent    = 90

  webhook "ops" {
    url    = "https://hooks.example.test/fareway?team=ops"
    secret = env("HOOK_SECRET")
  }

  webhook "chat" {
    url     = env("HOOK_URL")
    secret  = [env("HOOK_SECRET"), env("HOOK_SECRET")]
    timeout = "5s"
    events  = ["ledger_spooling", "provider_down"]
  }

  webhook "near" {
    url    = "http://10.0.0.7:9000/"
    secret = env("HOOK_SECRET")
  }

  mail "ops" {
    server = "smtp.example.test"
    from   = "Fareway <fareway@example.test>"
    to     = ["ops@example.test", "Ann <ann@example.test>", "ops@example.test"]
  }

  mail "implicit" {
    server   = "smtp.example.test:465"
    from     = "fareway@example.test"
    to       = ["ops@example.test"]
    username = "fareway"
    password = env("SECRET_TOKEN")
    events   = ["disk_full"]
  }

  mail "accounts" {
    server   = "smtp.example.test"
    from     = "Service <billing@example.test>"
    accounts = true
    events   = ["balance_low", "account_suspended", "disk_full"]
  }

  mail "here" {
    server = "localhost:25"
    tls    = "none"
    from   = "fareway@example.test"
    to     = ["root@localhost"]
  }
}

provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 0.05
    output = 0.20
  }
}
