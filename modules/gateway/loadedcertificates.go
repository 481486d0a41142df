package gateway

import (
	"context"
	"path"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"github.com/caddyserver/certmagic"
)

// loadWithin bounds the waiting for certificates. Those of names whose certificates Caddy loads at their first
// handshake (on-demand TLS) are not waited for in the end.
const loadWithin = time.Second

// awaitCertificates waits until the certificates that the storage has for the sites' names are loaded. Caddy does that
// beside its start, and a client that comes before hears of an internal error.
func (a *App) awaitCertificates() {
	v, err := a.ctx.AppIfConfigured("tls")
	if err != nil || a.http == nil {
		return
	}
	ctx, cancel := context.WithTimeout(a.ctx, loadWithin)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	loaded := v.(*caddytls.TLS).HasCertificateForSubject
	for _, name := range storedNames(ctx, a.ctx.Storage(), a.http) {
		for !loaded(name) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// storedNames are the names of an app's sites with TLS that a storage has certificates for.
func storedNames(ctx context.Context, storage certmagic.Storage, app *caddyhttp.App) (names []string) {
	issuers, err := storage.List(ctx, "certificates", false)
	if err != nil {
		return nil // there are none
	}
	for _, server := range app.Servers {
		if len(server.TLSConnPolicies) == 0 {
			continue
		}
		for _, name := range hostsOf(server.Routes) {
			for _, issuer := range issuers {
				if storage.Exists(ctx, certmagic.StorageKeys.SiteCert(path.Base(issuer), name)) {
					names = append(names, name)
					break
				}
			}
		}
	}
	return names
}

// hostsOf are the hosts that routes match.
func hostsOf(routes caddyhttp.RouteList) (hosts []string) {
	for _, route := range routes {
		for _, set := range route.MatcherSets {
			for _, matcher := range set {
				if host, ok := matcher.(*caddyhttp.MatchHost); ok {
					hosts = append(hosts, *host...)
				}
			}
		}
	}
	return hosts
}
