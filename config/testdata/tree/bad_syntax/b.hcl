route "small" {
  model = 
}
