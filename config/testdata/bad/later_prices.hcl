provider "local" {
  plugin = "echo"
}

route "small" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.5
  price {
    input  = 0.05
    output = 0.20
    above {
      input  = 1
      output = 2
    }
    above "272k" {
      input  = 1
      output = 2
    }
    above "0" {
      input  = 1
      output = 2
    }
    above "100000001" {
      input  = 1
      output = 2
    }
    above "-1" {
      input  = 1
      output = 2
    }
    above "+5" {
      input  = 1
      output = 2
    }
    above "02000" {
      input  = 1
      output = 2
    }
    above "1000" {
      input = 1
    }
    above "2000" {
      input  = 1
      output = -2
      above "3000" {
      }
    }
    above "2000" {
      input  = 1
      output = 2
    }
  }
  price "next year" {
    input  = 1
    output = 1
  }
  price "2027-02-30" {
    input  = 1
    output = 1
  }
  price "2027-01-01" {
    input = 1
  }
  price "2027-01-01" {
    input  = 1
    output = 1
  }
  price "2027-01-02" "2027-01-03" {
    input  = 1
    output = 1
  }
}

route "later" {
  provider       = "local"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.5
  price "2027-01-01" {
    input  = 1
    output = 1
  }
}
