# Rules for `screening { rules = "policy.hcl" }`. Begin with mode = "monitor": the metric fareway_screening_rules_total
# and `fareway gateway usage REQUEST_ID` show what would be refused.

rule "weapons" {
  category = "violence"
  terms    = ["pipe bomb", "nerve agent"]
}

# What is found inside of these does not count.
rule "harmless" {
  action = "allow"
  terms  = ["nerve agent antidote"]
}

rule "credentials" {
  category = "secrets"
  action   = "flag"
  patterns = ["AKIA[0-9A-Z]{16}", "-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----"]
}
