rule "weapons" {
  terms = ["rifle"]
}
rule "empty" {
}
rule "words" {
  category = "two words"
  action   = "refuse"
  terms    = ["ok", 7, "a long enough one"]
  colour   = "red"
}
mode = "off"
