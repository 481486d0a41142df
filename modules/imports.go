// Package modules is the table of contents of Fareway's Caddy modules: importing it registers them all, and
// it is what `xcaddy --with` points at. It is for builds of Caddy; nothing else imports it.
package modules

import (
	_ "time/tzdata" // a container image may have no time zones

	_ "github.com/fareway/fareway/modules/admin"
	_ "github.com/fareway/fareway/modules/auth"
	_ "github.com/fareway/fareway/modules/command"
	_ "github.com/fareway/fareway/modules/entry"
	_ "github.com/fareway/fareway/modules/exchange"
	_ "github.com/fareway/fareway/modules/families"
	_ "github.com/fareway/fareway/modules/gateway"
	_ "github.com/fareway/fareway/modules/limits"
	_ "github.com/fareway/fareway/modules/portal"
	_ "github.com/fareway/fareway/modules/verify"
)
