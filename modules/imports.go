// Package modules is the table of contents of Fareway's Caddy modules: importing it registers them all, and
// it is what `xcaddy --with` points at. It is for builds of Caddy; nothing else imports it.
package modules

import (
	_ "github.com/fareway/fareway/modules/gateway"
)
