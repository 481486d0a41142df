package entry

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

const (
	// bodyIdle and bodyRate are what a request's body has unless its server says otherwise: so long, and a second more
	// for so many bytes that have come. Who trickles is cut off.
	bodyIdle = 30 * time.Second
	bodyRate = 1 << 10 // bytes a second
)

// redirectServer is what Caddy calls the server that it makes for redirects from plain HTTP.
const redirectServer = "remaining_auto_https_redirects"

// boundBodies gives a server bounds on slow request bodies, unless it has some of its own: `read_body_idle` or
// `read_body`.
func boundBodies(server *caddyhttp.Server) {
	if server.ReadIdleTimeout == 0 && server.ReadMinRate == 0 && server.ReadTimeout == 0 {
		server.ReadIdleTimeout, server.ReadMinRate = caddy.Duration(bodyIdle), bodyRate
	}
}

// keepFromRedirects takes the hosts of this server's sites with the gateway out of Caddy's redirects from plain HTTP:
// a client that follows one has sent its key in clear by then, and goes on like that. What an operator has written
// himself stays.
func keepFromRedirects(ctx caddy.Context, server *caddyhttp.Server) {
	app := httpApp(ctx)
	if app == nil {
		return // embedded elsewhere
	}
	hosts := gatewayHosts(server)
	for name, other := range app.Servers {
		redirects, left := 0, 0
		for i := range other.Routes {
			if isRedirect(other.Routes[i]) {
				redirects++
				if !keepFromRedirect(other.Routes[i], hosts) {
					left++
				}
			}
		}
		// One that Caddy has made for its redirects alone, the last of which is for all hosts.
		if name == redirectServer && redirects > 0 && left <= 1 {
			delete(app.Servers, name)
		}
	}
}

// httpApp is the HTTP app that a handler is being made for.
func httpApp(ctx caddy.Context) *caddyhttp.App {
	for _, m := range ctx.Modules() {
		if app, ok := m.(*caddyhttp.App); ok {
			return app
		}
	}
	return nil
}

// gatewayHosts are the hosts of a server's sites that are being made and have the gateway; nil for all hosts.
func gatewayHosts(server *caddyhttp.Server) []string {
	var hosts []string
	for _, route := range server.Routes {
		if !slices.ContainsFunc(route.HandlersRaw, isGateway) {
			continue
		}
		own := hostsOf(route)
		if own == nil {
			return nil
		}
		hosts = append(hosts, own...)
	}
	return hosts
}

var gatewayPattern = regexp.MustCompile(`"handler"\s*:\s*"fareway"`)

func isGateway(handler json.RawMessage) bool { return gatewayPattern.Match(handler) }

func hostsOf(route caddyhttp.Route) (hosts []string) {
	for _, set := range route.MatcherSets {
		for _, m := range set {
			switch m := m.(type) {
			case caddyhttp.MatchHost:
				hosts = append(hosts, m...)
			case *caddyhttp.MatchHost:
				hosts = append(hosts, *m...)
			}
		}
	}
	return hosts
}

// isRedirect reports a route of Caddy's own that redirects to HTTPS: no configuration makes such a handler.
func isRedirect(route caddyhttp.Route) bool {
	if len(route.Handlers) != 1 {
		return false
	}
	r, ok := route.Handlers[0].(caddyhttp.StaticResponse)
	return ok && strings.HasPrefix(r.Headers.Get("Location"), "https://{http.request.host}")
}

// keepFromRedirect makes a redirect one that leads hosts nowhere; it reports whether it is for nobody else. Other
// hosts that it was for have the redirect for all hosts, which comes last.
func keepFromRedirect(route caddyhttp.Route, hosts []string) bool {
	own := hostsOf(route)
	if own == nil && hosts != nil {
		return false
	}
	ours := slices.DeleteFunc(slices.Clone(own), func(host string) bool {
		return hosts != nil && !slices.Contains(hosts, host)
	})
	if len(ours) == 0 && own != nil {
		return false
	}
	if own != nil {
		// In place, for the route may have been taken over by now.
		route.MatcherSets[0] = caddyhttp.MatcherSet{caddyhttp.MatchProtocol("http"), caddyhttp.MatchHost(ours)}
	}
	route.Handlers[0].(caddyhttp.StaticResponse).Headers.Del("Location")
	return len(ours) == len(own)
}
