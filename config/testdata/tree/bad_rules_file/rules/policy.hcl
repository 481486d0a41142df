rule "exponential" {
  patterns = ["(a+)+$"]
}
rule "terms" {
  terms = [
    "Bomb",
    "ｂｏｍｂ",
    "\u200b",
    "a",
    "--",
  ]
}
rule "patterns" {
  patterns = ["(bomb", "(?=x)y", "(x)\\1", ".*", "\\w", "bomb[a-z]{900}[0-9]{900}[a-z]{900}", "\\d{4}"]
}
