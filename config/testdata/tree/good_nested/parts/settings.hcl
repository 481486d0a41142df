gateway {
  plugin_dir = "plugins"
}
