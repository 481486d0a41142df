package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fareway/fareway/config"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("fareway", parseGlobalOption)
	httpcaddyfile.RegisterHandlerDirective("fareway", parseDirective)
	httpcaddyfile.RegisterDirectiveOrder("fareway", httpcaddyfile.Before, "reverse_proxy")
	for s := LinkEntry; s <= LinkExchange; s++ {
		httpcaddyfile.RegisterDirective(s.String(), parseLink(s))
		// Each comes behind those before it: this is where they are put, and no other neighbour is allowed.
		httpcaddyfile.RegisterDirectiveOrder(s.String(), httpcaddyfile.Before, "reverse_proxy")
	}
}

// parseGlobalOption parses the global option:
//
//	fareway {
//	    config <file>
//	    data   <dir>
//	    health <address>
//	    admin  <address> [<certificate> <key>]
//	}
//
// Relative paths are relative to the file that the option is in.
func parseGlobalOption(d *caddyfile.Dispenser, existing any) (any, error) {
	if existing != nil {
		d.Next() // so that the error has a line
		return nil, d.Err("the option fareway is already given: one gateway has one configuration file")
	}
	app := new(App)
	if err := app.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	data, err := filepath.Abs(cmp.Or(app.Data, DefaultDataDir()))
	if err != nil {
		return nil, d.WrapErr(err)
	}
	app.Digest = config.Digest(app.Config)
	if file, err := filepath.Abs(d.File()); err == nil {
		adapted.Store(&file)
	}
	firstData.Do(func() {
		setDefaultAdmin(data)
		setDefaultStorage(data)
	})
	app.previewLoad(data)
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
		case "admin":
			if err := a.unmarshalAdmin(d); err != nil {
				return err
			}
			continue
		default:
			return d.Errf("unknown option %q of fareway: it has config, data, health and admin", name)
		}
		if *into != "" {
			return d.Errf("the option %s is given twice", name)
		}
		if !d.AllArgs(into) {
			return d.ArgErr()
		}
		if name != "health" {
			*into = Beside(d.File(), *into)
		}
	}
	if a.Config == "" {
		return d.Err("fareway needs the option config: the path of its HCL file")
	}
	return nil
}

// ReadCaddyfile returns the app of a Caddyfile, of which it reads nothing but the global options. Errors name file and
// line.
func ReadCaddyfile(file string) (*App, error) {
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the Caddyfile: %w", err)
	}
	blocks, err := caddyfile.Parse(file, body)
	if err != nil {
		return nil, fmt.Errorf("reading the Caddyfile: %w", err)
	}
	if len(blocks) > 0 && len(blocks[0].Keys) == 0 { // the global options
		for _, option := range blocks[0].Segments {
			if option.Directive() == "fareway" {
				app := new(App)
				return app, app.UnmarshalCaddyfile(caddyfile.NewDispenser(option))
			}
		}
	}
	return nil, fmt.Errorf("%s has no gateway in it: add the global option `fareway { config gateway.hcl }`", file)
}

// unmarshalAdmin sets the address of our own for administration.
func (a *App) unmarshalAdmin(d *caddyfile.Dispenser) error {
	if a.Admin != nil {
		return d.Err("the option admin is given twice")
	}
	listener, err := caddyfile.UnmarshalModule(d, "fareway.admin")
	if err != nil {
		return err
	}
	a.Admin = caddyconfig.JSON(listener, nil)
	return nil
}

// Beside is a path that stands in a file: a relative one is relative to that file, so that a folder can be copied or
// moved with all that is in it, and absolute in the end, for the gateway that gets it may run elsewhere.
func Beside(file, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	path = filepath.Join(filepath.Dir(file), path)
	if _, err := os.Stat(file); err != nil {
		return path // it came over the admin API: it is relative to where that gateway runs
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// parseDirective parses the site directive, which gives the whole service to what its matcher matches:
//
//	fareway [<matcher>]
func parseDirective(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	if err := noArguments(h); err != nil {
		return nil, err
	}
	var route caddyhttp.Route
	for s := LinkEntry; s <= LinkExchange; s++ {
		route.HandlersRaw = append(route.HandlersRaw, s.handler())
	}
	return &caddyhttp.Subroute{Routes: caddyhttp.RouteList{{
		MatcherSetsRaw: caddyhttp.RawMatcherSets{{"path": caddyconfig.JSON(portalPaths, nil)}},
		HandlersRaw:    []json.RawMessage{caddyconfig.JSONModuleObject(struct{}{}, "handler", "fareway_portal", nil)},
	}, route}}, nil
}

// portalPaths are those of the portal, which is no link of the chain.
var portalPaths = []string{"/portal", "/portal/*"}

// parseLink parses the directive of one handler, for sites that have handlers of their own between them:
//
//	fareway_entry    [<matcher>]
//	fareway_auth     [<matcher>]
//	fareway_limits   [<matcher>]
//	fareway_exchange [<matcher>]
func parseLink(s Link) httpcaddyfile.UnmarshalFunc {
	return func(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
		if !h.Next() {
			return nil, h.ArgErr()
		}
		matcher, err := h.ExtractMatcherSet()
		if err != nil {
			return nil, err
		}
		if err := noArguments(h); err != nil {
			return nil, err
		}
		route := caddyhttp.Route{HandlersRaw: []json.RawMessage{s.handler()}}
		if len(matcher) > 0 {
			route.MatcherSetsRaw = caddyhttp.RawMatcherSets{matcher}
		}
		return []httpcaddyfile.ConfigValue{{Class: "route", Value: route}}, nil
	}
}

// handler is the link's handler in Caddy's JSON.
func (s Link) handler() json.RawMessage {
	return caddyconfig.JSONModuleObject(struct{}{}, "handler", links[s].module, nil)
}

// noArguments refuses whatever stands behind a directive's name.
func noArguments(h httpcaddyfile.Helper) error {
	h.Next() // the name
	name := h.Val()
	if h.NextArg() {
		return h.ArgErr()
	}
	if h.NextBlock(0) {
		return h.Errf("the directive %s takes no block: its configuration is in the HCL file that the global option names",
			name)
	}
	return nil
}

var _ caddyfile.Unmarshaler = (*App)(nil)
