package gateway

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"github.com/caddyserver/certmagic"

	"github.com/fareway/fareway/modules/internal/engine"
)

// certificatesOf tells when the certificates of the sites of a configuration are good, by the hosts that it names: one
// that only a client has named (on-demand TLS) is none of them. Of a host whose sites have TLS and that has none yet it
// is the zero Validity. Without sites it is nil.
func certificatesOf(ctx caddy.Context) func() map[string]engine.Validity {
	loaded, err := ctx.AppIfConfigured("http")
	if err != nil {
		return nil // there are no sites, and Caddy says what is wrong with those that there are
	}
	app := loaded.(*caddyhttp.App)
	wanted := slices.DeleteFunc(tlsHosts(app), isOnDemand(ctx))
	hosts := make(map[string]bool)
	for _, server := range app.Servers {
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
		for _, host := range wanted {
			validities[strings.ToLower(host)] = engine.Validity{}
		}
		for host := range hosts {
			if leaf := newestLeaf(cachedCertificates(host)); leaf != nil {
				validities[host] = engine.Validity{From: leaf.NotBefore, Until: leaf.NotAfter}
			}
		}
		return validities
	}
}

// isOnDemand reports of a host whether its certificate is obtained when the first client asks for it.
func isOnDemand(ctx caddy.Context) func(host string) bool {
	app, err := ctx.AppIfConfigured("tls")
	if err != nil {
		return func(string) bool { return false }
	}
	automation := app.(*caddytls.TLS).Automation
	return func(host string) bool {
		return automation != nil && slices.ContainsFunc(automation.Policies, func(p *caddytls.AutomationPolicy) bool {
			return p.OnDemand && (len(p.Subjects()) == 0 || slices.Contains(p.Subjects(), host))
		})
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
