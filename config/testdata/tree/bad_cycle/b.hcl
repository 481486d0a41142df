include "sub/c.hcl"
