alerts {
  balance_low_credits = -1
  cap_near_percent    = 100

  webhook "ops" {
    url    = "http://hooks.example.test/fareway"
    secret = "whsec_hunter2hunter2hunter2hunter2hunt"
    events = ["provider_dwn"]
  }

  webhook "ops" {
    url    = "https://me:hunter2@hooks.example.test/"
    secret = env("HOOK_SHORT")
    events = []
  }

  webhook "third" {
    url    = "hooks.example.test"
    secret = [env("HOOK_SECRET"), "hunter2"]
  }

  webhook "fourth" {
    url    = "ftp://hooks.example.test"
    secret = env("SECRET_TOKEN")
  }

  webhook "fifth" {
    url    = "https://hooks.example.test/#x"
    secret = []
    ca     = "hunter2"
  }

  mail "ops" {
    server   = "smtp.example.test:0"
    from     = "nobody"
    to       = ["ops@example.test", "no address", 7]
    username = "me"
  }

  mail "plain" {
    server   = "smtp.example.test:25"
    tls      = "none"
    from     = "fareway@exämple.test"
    to       = []
    username = "me"
    password = "hunter2"
    timeout  = "2m"
  }

  mail "none" {
    tls = "ssl"
  }

  mail "quoted" {
    server   = "smtp.example.test"
    from     = "fareway@example.test"
    to       = ["\"a,b\"@example.test"]
    accounts = "yes"
  }

  mail "owners" {
    server   = "smtp.example.test"
    from     = "fareway@example.test"
    accounts = true
    events   = ["disk_full", "backup_failed"]
  }

  mail "again" {
    server   = "smtp.example.test"
    from     = "fareway@example.test"
    accounts = true
  }

  mail "links" {
    server = "smtp.example.test"
    from   = "fareway@example.test"
    links  = true
  }

  mail "more links" {
    server = "smtp.example.test"
    from   = "fareway@example.test"
    links  = true
  }

  slack "ops" {
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
