package gateway

import (
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("fareway", parseGlobalOption)
	httpcaddyfile.RegisterHandlerDirective("fareway", parseDirective)
	httpcaddyfile.RegisterDirectiveOrder("fareway", httpcaddyfile.Before, "reverse_proxy")
}

// parseGlobalOption parses the global option:
//
//	fareway {
//	    config <file>
//	    data   <dir>
//	    health <address>
//	}
func parseGlobalOption(d *caddyfile.Dispenser, existing any) (any, error) {
	if existing != nil {
		d.Next() // so that the error has a line
		return nil, d.Err("the option fareway is already given: one gateway has one configuration file")
	}
	app := new(App)
	if err := app.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "fareway", Value: caddyconfig.JSON(app, nil)}, nil
}

// UnmarshalCaddyfile sets the app from the global option; parseGlobalOption has its grammar.
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // "fareway"
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		name := d.Val()
		var into *string
		switch name {
		case "config":
			into = &a.Config
		case "data":
			into = &a.Data
		case "health":
			into = &a.Health
		default:
			return d.Errf("unknown option %q of fareway: it has config, data and health", name)
		}
		if *into != "" {
			return d.Errf("the option %s is given twice", name)
		}
		if !d.AllArgs(into) {
			return d.ArgErr()
		}
	}
	if a.Config == "" {
		return d.Err("fareway needs the option config: the path of its HCL file")
	}
	return nil
}

// parseDirective parses the site directive, which gives the whole service to what its matcher matches:
//
//	fareway [<matcher>]
func parseDirective(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h.Next() // "fareway"
	if h.NextArg() {
		return nil, h.ArgErr()
	}
	if h.NextBlock(0) {
		return nil, h.Errf("the directive fareway takes no block: its configuration is in the HCL file that the global option names")
	}
	var route caddyhttp.Route
	for _, name := range []string{"fareway", "fareway_auth", "fareway_limits", "fareway_exchange"} {
		raw := caddyconfig.JSONModuleObject(struct{}{}, "handler", name, nil)
		route.HandlersRaw = append(route.HandlersRaw, raw)
	}
	return &caddyhttp.Subroute{Routes: caddyhttp.RouteList{route}}, nil
}

var _ caddyfile.Unmarshaler = (*App)(nil)
