# Routes that are compared by a model of one's own. To make its file, record what the models of the routes answer to some
# hundred of your own requests, score the answers from 0 to 1, and write them into a folder (`fareway gateway route --help`
# says how), with the names that `model` has below. Then
#
#   fareway gateway route train --recorded answers --out routes.model
#   fareway gateway check predictor.hcl
#
# and save the file again whenever it is trained anew: a gateway that runs takes it up within two seconds.

predictor {
  model = "routes.model"
}

provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "small-1"
  context_window = 32768
  max_output     = 8192
  quality {
    default = "auto" # as it was at what was recorded
    weight  = 40     # that counts as 40 observations beside what is predicted for each request
  }
  price {
    input  = 0.05
    output = 0.40
  }
}

route "large" {
  provider       = "local"
  model          = "large-1"
  context_window = 32768
  max_output     = 8192
  quality {
    default = "auto"
    weight  = 40
  }
  price {
    input  = 5
    output = 25
  }
}
