variable "missing" {}
variable "NUMBER" {
  default = 1
}
variable "FLAG" {
  default = true
}
variable "LIST" {
  default = []
}
variable "JSON_NULL" {
  default = {}
}
variable "nothing" {
  default = null
}
variable "NOT_TEXT" {}
variable "EXTREME" {
  default = 0
}
variable "a-b" {}
variable "refers" {
  default = var.missing
}
variable "twice" {
  default = 1
}
variable "twice" {
  default = 2
}
variable "late" {
  defualt = "sk-hunter2"
}
variable "written" {
  default     = ["sk-hunter2", 1 / "sk-hunter2"]
  description = 1 + 1
}
variable {}

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

plan "p" {
  spend_cap_credits = var.missing # not reported again
  token_budget      = var.mising
}
