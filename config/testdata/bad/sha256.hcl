gateway {
  plugin_dir = "plugins"
}

provider "local" {
  plugin = "echo"
  sha256 = "abc"
}

provider "sha512" {
  plugin = "echo"
  sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
}

provider "longer" {
  plugin = "echo"
  sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0"
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
