provider "local" {
  plugin = "echo"
  confine {
    user          = "some body"
    max_files     = 31
    max_processes = 1048577
  }
}

provider "other" {
  plugin = "echo"
  confine {
    max_files     = 32
    max_processes = 16
  }
}

provider "third" {
  plugin = "echo"
  confine {
    user          = "plugins-1"
    max_files     = 1048576
    max_processes = 15
    max_memory    = "1GiB"
  }
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
