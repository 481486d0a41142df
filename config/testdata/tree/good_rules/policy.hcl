rule "weapons" {
  category = "violence"
  terms    = ["pipe bomb"]
  patterns = ["(?i)nitro\\s*cellulose"]
}

rule "cosmetics" {
  action = "allow"
  terms  = ["bath bomb"]
}
