// Command fareway is Caddy with Fareway's modules in it: a prepaid gateway for language models. All of
// Caddy's commands work; Fareway's own are under `fareway gateway`. It links what xcaddy.json names and
// nothing else.
package main

import (
	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/fareway/fareway/modules"
)

func main() {
	caddy.CustomBinaryName = "fareway"
	caddy.CustomLongDescription = description
	caddycmd.Main()
}

const description = `Fareway is a prepaid gateway for language models, built as a custom Caddy.

Clients of the OpenAI and Anthropic libraries speak to one model, service/auto;
one HCL file declares which backends exist, what they cost and how good they
are; every request is routed, metered and charged from a prepaid balance.

To try it, with an account, a key and trial credits made for you:

	$ fareway gateway up

Fareway's commands are under 'fareway gateway'. Everything that Caddy does works
too: 'fareway run', 'fareway reload', 'fareway validate' and so on read a
Caddyfile, whose global option 'fareway' names the HCL file.`
