outcomes {
  keep      = "1d"
  max_size  = "4KiB"
  text_keep = "2d"
}
outcomes {
  text = true
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
    input  = 3
    output = 0.20
  }
}
