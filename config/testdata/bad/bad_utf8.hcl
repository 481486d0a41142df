gateway {
  namespace = "ÿþ"
}
