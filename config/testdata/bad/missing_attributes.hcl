provider "local" {}

route "small" {
  price {
    input = 1
  }
}

profile "max" {
  cost = 1
}
