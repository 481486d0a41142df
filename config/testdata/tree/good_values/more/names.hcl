locals {
  tools = ["tools", "json_object"]
  key   = file("key.txt") # beside this file
}
