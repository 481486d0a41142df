route "up" {
  provider       = "up"
  model          = "--"
  context_window = 32768  # a guess: the upstream does not say
  max_output     = 8192  # a guess: the upstream does not say
  quality        = 0.50  # 0 to 1, among your routes
  # offers       = ["tools", "json_object"]  # take away the first # where the model can

  price {  # US dollars for a million tokens
    input  = 0  # nobody says what it costs: set both
    output = 0
  }
}

route "maker-large-free" {
  provider       = "up"
  model          = "maker large:free"
  context_window = 32768  # a guess: the upstream does not say
  max_output     = 8192  # a guess: the upstream does not say
  quality        = 0.50  # 0 to 1, among your routes
  # offers       = ["tools", "json_object"]  # take away the first # where the model can

  price {  # US dollars for a million tokens
    input  = 0  # nobody says what it costs: set both
    output = 0
  }
}

route "maker-large-free-2" {
  provider       = "up"
  model          = "maker/large:free"
  context_window = 400000
  max_output     = 128000
  quality        = 0.50  # 0 to 1, among your routes
  offers         = ["tools", "json_object", "json_schema"]

  price {  # US dollars for a million tokens
    input       = 0.25
    output      = 2
    cache_read  = 0.025
  }
}

route "tiny-x-y" {
  provider       = "up"
  model          = "tiny \"$${x}\" \\ %%{y}"
  context_window = 1024
  max_output     = 1024  # a guess: the upstream does not say
  quality        = 0.50  # 0 to 1, among your routes
  # offers       = ["tools", "json_object"]  # take away the first # where the model can

  price {  # US dollars for a million tokens
    input  = 0  # nobody says what it costs: set both
    output = 0
  }
}
