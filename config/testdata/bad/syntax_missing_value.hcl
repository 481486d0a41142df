gateway {
  keepalive =
}
