portal {
  url = "https://ai.example.test/portal"

  oidc "company" {
    issuer        = "http://id.example.test"
    client_id     = ""
    client_secret = "hunter2"
    scopes        = ["e mail", "email"]
    groups_claim  = ""
    operators     = { "gw-admins" = "amdin", "helpdesk" = 7 }
    ca            = "hunter2"
  }

  oidc "company" {
    issuer    = "id.example.test"
    client_id = "fareway"
    operators = ["admin"]
    group     = "x"
  }

  oidc "third" {
    issuer = "https://me:hunter2@id.example.test/?x"
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
