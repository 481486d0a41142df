package gateway

import (
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
)

// certificatesOf tells when the certificates of the sites of a configuration expire, by the hosts that it names: a host
// that only a client has named (on-demand TLS) is none of them. Without sites it is nil.
func certificatesOf(ctx caddy.Context) func() map[string]time.Time {
	loaded, err := ctx.AppIfConfigured("http")
	if err != nil {
		return nil // there are no sites, and Caddy says what is wrong with those that there are
	}
	hosts := make(map[string]bool)
	for _, server := range loaded.(*caddyhttp.App).Servers {
		for i := range server.Routes {
			for _, set := range server.Routes[i].MatcherSets {
				for _, matcher := range set {
					if names, ok := matcher.(*caddyhttp.MatchHost); ok {
						for _, name := range *names {
							hosts[strings.ToLower(name)] = true
						}
					}
				}
			}
		}
	}
	return func() map[string]time.Time {
		expiries := make(map[string]time.Time)
		for host := range hosts {
			for _, c := range caddytls.AllMatchingCertificates(host) {
				// Caddy serves the one that is good for longest.
				if c.Leaf != nil && c.Leaf.NotAfter.After(expiries[host]) {
					expiries[host] = c.Leaf.NotAfter
				}
			}
		}
		return expiries
	}
}
