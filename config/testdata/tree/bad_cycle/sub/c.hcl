
  include "../gateway.hcl"
