package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
)

// site is a Caddyfile, adapted, and what it says about the gateway.
type site struct {
	file   string
	json   []byte // Caddy's configuration
	config string // the HCL file, absolute
	data   string // the data folder, absolute
	admin  string // the gateway's own admin address, "" when there is none
	health string // where health checks are answered, "" for the usual socket
	public []endpoint
	listen []string // every TCP address that it takes, host:port
}

// endpoint is an address that clients can use.
type endpoint struct {
	url  string // "http://127.0.0.1:8484", without a slash at the end
	dial string // host:port to connect to from this machine
}

// readSite adapts a Caddyfile. Errors name file and line. What is wrong in its HCL file is said by who asks for that:
// this process may lack variables that the gateway has.
func readSite(file string) (*site, error) {
	gateway.ReadQuietly()
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the Caddyfile: %w", err)
	}
	// Warnings are about style; `fareway fmt` tells them to who asks.
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(body, map[string]any{"filename": file})
	if err != nil {
		return nil, fmt.Errorf("reading the Caddyfile: %w", err)
	}
	return siteOf(file, adapted)
}

// siteOf reads Caddy's configuration, of a file.
func siteOf(file string, adapted []byte) (*site, error) {
	var parts struct {
		Admin *caddy.AdminConfig `json:"admin"`
		Apps  struct {
			Fareway *gateway.App   `json:"fareway"`
			HTTP    *caddyhttp.App `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(adapted, &parts); err != nil {
		return nil, fmt.Errorf("reading the adapted %s: %w", file, err)
	}
	if parts.Apps.Fareway == nil {
		return nil, fmt.Errorf("%s has no gateway in it: add the global option `fareway { config gateway.hcl }`, "+
			"or move the file away and a new one is written", file)
	}
	if parts.Apps.HTTP == nil {
		return nil, fmt.Errorf("%s has no site in it: add one with the directive `fareway`, "+
			"or move the file away and a new one is written", file)
	}
	s := &site{file: file, json: adapted, health: parts.Apps.Fareway.Health}
	var err error
	if s.config, s.data, err = paths(parts.Apps.Fareway); err != nil {
		return nil, err
	}
	if err := s.readAdmin(parts.Admin, parts.Apps.Fareway.Admin); err != nil {
		return nil, err
	}
	return s, s.readServers(parts.Apps.HTTP)
}

// paths are where the HCL file and the data folder of a gateway are, absolute.
func paths(app *gateway.App) (hcl, data string, err error) {
	if hcl, err = filepath.Abs(app.Config); err != nil {
		return "", "", fmt.Errorf("finding the configuration file: %w", err)
	}
	if data, err = filepath.Abs(cmp.Or(app.Data, gateway.DefaultDataDir())); err != nil {
		return "", "", fmt.Errorf("finding the data folder: %w", err)
	}
	return hcl, data, nil
}

// readAdmin refuses an admin endpoint that is not guarded before anything is started.
func (s *site) readAdmin(caddys *caddy.AdminConfig, own json.RawMessage) error {
	if caddys == nil || !caddys.Disabled {
		address := caddy.DefaultAdminListen
		if caddys != nil {
			address = cmp.Or(caddys.Listen, address)
		}
		if err := gateway.CheckAdminEndpoint(address); err != nil {
			return err
		}
	}
	if own == nil {
		return nil
	}
	var listener admin.Listener
	if err := json.Unmarshal(own, &listener); err != nil {
		return fmt.Errorf("reading the adapted %s: %w", s.file, err)
	}
	s.admin = listener.Address()
	return s.addListen(s.admin)
}

// addListen notes the TCP addresses among what Caddy is to listen on.
func (s *site) addListen(address string) error {
	addr, err := caddy.ParseNetworkAddress(address)
	if err != nil {
		return fmt.Errorf("reading the address %q in %s: %w", address, s.file, err)
	}
	if !strings.HasPrefix(addr.Network, "tcp") {
		return nil
	}
	for i := range addr.PortRangeSize() {
		s.listen = append(s.listen, addr.JoinHostPort(i))
	}
	return nil
}

func (s *site) readServers(app *caddyhttp.App) error {
	for _, name := range slices.Sorted(maps.Keys(app.Servers)) {
		server := app.Servers[name]
		for _, address := range server.Listen {
			if err := s.addListen(address); err != nil {
				return err
			}
			for _, route := range server.Routes {
				if !hasGateway(route.HandlersRaw) {
					continue
				}
				if e, ok := publicEndpoint(app, server, route, address); ok && !slices.Contains(s.public, e) {
					s.public = append(s.public, e)
				}
			}
		}
	}
	if len(s.public) == 0 {
		return errors.New(s.file + " gives the gateway to no site at a TCP address: add the directive `fareway` to a site")
	}
	return nil
}

// publicEndpoint is how a client reaches route at the listen address: by the first host that it matches or, when
// it matches all hosts, by the address.
func publicEndpoint(app *caddyhttp.App, server *caddyhttp.Server, route caddyhttp.Route, address string) (endpoint,
	bool) {
	addr, err := caddy.ParseNetworkAddress(address)
	if err != nil || !strings.HasPrefix(addr.Network, "tcp") {
		return endpoint{}, false
	}
	port := int(addr.StartPort)
	reach := addr.Host
	if ip := net.ParseIP(reach); reach == "" || ip != nil && ip.IsUnspecified() {
		reach = "127.0.0.1"
	}
	e := endpoint{dial: net.JoinHostPort(reach, strconv.Itoa(port))}

	host := matchedHost(route)
	automatic := server.AutoHTTPS == nil || !server.AutoHTTPS.Disabled && !slices.Contains(server.AutoHTTPS.Skip, host)
	plain := port == cmp.Or(app.HTTPPort, caddyhttp.DefaultHTTPPort)
	scheme, standard := "http", 80
	if !plain && (len(server.TLSConnPolicies) > 0 || host != "" && automatic) {
		scheme, standard = "https", 443
	}
	host = cmp.Or(host, reach)
	switch {
	case port != standard:
		host = net.JoinHostPort(host, strconv.Itoa(port))
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	e.url = scheme + "://" + host
	return e, true
}

// matchedHost is the first host name without a wildcard that the route matches, or "".
func matchedHost(route caddyhttp.Route) string {
	for _, set := range route.MatcherSetsRaw {
		var hosts []string
		if json.Unmarshal(set["host"], &hosts) != nil {
			continue
		}
		for _, h := range hosts {
			if !strings.ContainsAny(h, "*{") {
				return h
			}
		}
	}
	return ""
}

// hasGateway reports whether our entry handler is anywhere in these handlers.
func hasGateway(handlers []json.RawMessage) bool {
	return slices.ContainsFunc(handlers, func(raw json.RawMessage) bool {
		var v any
		return json.Unmarshal(raw, &v) == nil && holdsHandler(v, "fareway")
	})
}

func holdsHandler(v any, name string) bool {
	switch v := v.(type) {
	case map[string]any:
		if v["handler"] == name {
			return true
		}
		for _, inner := range v {
			if holdsHandler(inner, name) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(inner any) bool { return holdsHandler(inner, name) })
	}
	return false
}
