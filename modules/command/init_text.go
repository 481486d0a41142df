package command

import (
	"bytes"
	"fmt"

	"github.com/fareway/fareway/modules/gateway"
)

// backend is a service as it is set up.
type backend struct {
	service
	address string // "" for the usual one
	keyEnv  string // that has its key, "" for no key
	keySet  bool   // here
}

// text is a configuration with the backend and routes to it.
func (b *backend) text(routes []initRoute) []byte {
	var w bytes.Buffer
	w.WriteString(`# What this gateway offers: providers, routes and their prices, and plans. Written by ` +
		"`fareway gateway init`;" + `
# it is yours from here on. ` + "`fareway gateway check FILE`" + ` checks it. A gateway that runs takes it when it is
# saved. Every block and attribute is explained in https://github.com/fareway/fareway/tree/main/config.

`)
	fmt.Fprintf(&w, "provider %q {\n  plugin = %q\n  config {\n", b.name, b.plugin)
	if b.preset != "" {
		fmt.Fprintf(&w, "    preset = %q\n", b.preset)
	}
	if b.address != "" {
		fmt.Fprintf(&w, "    base_url = %s\n", hclText(b.address))
	}
	if b.keyEnv != "" {
		fmt.Fprintf(&w, "    api_key = env(%q)\n", b.keyEnv)
	}
	w.WriteString(b.timeouts() + "  }\n}\n\n")
	if len(routes) == 0 {
		return gateway.OwnHints(w.Bytes())
	}
	fmt.Fprintf(&w, "# A route is one model of a provider. `fareway gateway models %s` lists more, to paste here.\n",
		b.name)
	for _, r := range routes {
		printModel(&w, b.name, r.Name, r.modelView)
		w.WriteByte('\n')
	}
	w.WriteString(`# A route that fails time after time is left alone for a while.
breaker {
}

# A plan is what accounts share: fareway gateway account create NAME --plan trial
plan "trial" {
  monthly_credits = 0 # 1 credit = 1 US cent
}
`)
	return gateway.OwnHints(w.Bytes())
}
