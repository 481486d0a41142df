provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  region         = "e u"
  price {
    input  = 0.05
    output = 0.20
  }
}

route "near" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  region         = "eu_central-1"
  price {
    input  = 0.05
    output = 0.20
  }
}

plan "starter" {
  requires {
    region = ["eu_central-1", "eu,ch", "eu.", 1]
  }
}
