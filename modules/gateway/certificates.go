package gateway

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"github.com/caddyserver/certmagic"

	"github.com/fareway/fareway/modules/internal/engine"
)

// certificatesOf tells when the certificates of the sites of a configuration are good, by the hosts that it names: one
// that only a client has named (on-demand TLS) is none of them. Without sites it is nil.
func certificatesOf(ctx caddy.Context) func() map[string]engine.Validity {
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
	return func() map[string]engine.Validity {
		validities := make(map[string]engine.Validity)
		for host := range hosts {
			for _, c := range cachedCertificates(host) {
				// Caddy serves the one that is good for longest.
				if c.Leaf != nil && c.Leaf.NotAfter.After(validities[host].Until) {
					validities[host] = engine.Validity{From: c.Leaf.NotBefore, Until: c.Leaf.NotAfter}
				}
			}
		}
		return validities
	}
}

// cachedCertificates are Caddy's for a host. At exit, while requests drain, Caddy has no cache any more, and panics.
func cachedCertificates(host string) (list []certmagic.Certificate) {
	defer func() {
		if recover() != nil {
			list = nil
		}
	}()
	return caddytls.AllMatchingCertificates(host)
}
