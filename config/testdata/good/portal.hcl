portal {
  url                = "https://ai.example.test/"
  edit_configuration = true

  oidc "company" {
    issuer        = "https://id.example.test/realms/staff"
    client_id     = "fareway"
    client_secret = env("SECRET_TOKEN")
    scopes        = ["openid", "email", "groups", "email"]
    groups_claim  = "roles"
    operators     = { "gw-admins" = "admin", "helpdesk" = "support", "audit" = "read-only" }
  }

  oidc "near" {
    issuer    = "http://127.0.0.1:5556/dex"
    client_id = "public"
  }

  stripe {
    secret_key      = env("STRIPE_SECRET_KEY")
    webhook_secret  = env("STRIPE_WEBHOOK_SECRET")
    currency        = "EUR"
    unit_amount     = 95
    unit_credits    = 100
    maximum_credits = 20000
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

alerts {
  mail "links" {
    server = "smtp.example.test"
    from   = "fareway@example.test"
    links  = true
  }
}
