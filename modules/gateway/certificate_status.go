package gateway

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/certmagic"

	"github.com/fareway/fareway/modules/internal/engine"
)

// certificateFailures are the last failures by host: of the whole process, as Caddy's certificates are, so that a
// reload forgets none.
var certificateFailures struct {
	sync.Mutex
	of map[string]certificateFailure
}

// certificateFailure is one, and until when the certificate was good that was there then.
type certificateFailure struct {
	engine.CertificateFailure
	had time.Time
}

// certificateWatch notes what came of obtaining and renewing certificates.
type certificateWatch struct{}

// Handle implements caddyevents.Handler.
func (certificateWatch) Handle(_ context.Context, e caddy.Event) error {
	host, _ := e.Data["identifier"].(string)
	leaf := newestLeaf(cachedCertificates(host))
	certificateFailures.Lock()
	defer certificateFailures.Unlock()
	if e.Name() == "cert_obtained" {
		delete(certificateFailures.of, host)
		return nil
	}
	if certificateFailures.of == nil {
		certificateFailures.of = make(map[string]certificateFailure)
	}
	failure := certificateFailure{CertificateFailure: engine.CertificateFailure{At: e.Timestamp().UTC(),
		Text: failureText(e.Data["error"])}}
	if leaf != nil {
		failure.had = leaf.NotAfter
	}
	certificateFailures.of[host] = failure
	return nil
}

// failureOf is the last failure of a host that has a certificate now, or none (nil). One that it did not have when it
// failed was obtained since, be it by another process: Caddy's storage is shared.
func failureOf(host string, leaf *x509.Certificate) *engine.CertificateFailure {
	certificateFailures.Lock()
	defer certificateFailures.Unlock()
	failure, failed := certificateFailures.of[host]
	if failed && leaf != nil && leaf.NotAfter.After(failure.had) {
		delete(certificateFailures.of, host)
		failed = false
	}
	if !failed {
		return nil
	}
	return &failure.CertificateFailure
}

// newestLeaf is the one of certificates that is good for longest, which is what Caddy serves; nil for none.
func newestLeaf(list []certmagic.Certificate) (newest *x509.Certificate) {
	for _, c := range list {
		if c.Leaf != nil && (newest == nil || c.Leaf.NotAfter.After(newest.NotAfter)) {
			newest = c.Leaf
		}
	}
	return newest
}

// failureText is of an error whose parts came over the network: short, and without control characters.
func failureText(v any) string {
	const most = 500
	text := strings.ToValidUTF8(fmt.Sprint(v), "?")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// watchCertificates subscribes to what Caddy says of certificates, and tells the engine how to look at them.
func watchCertificates(ctx caddy.Context) error {
	app, err := ctx.App("events")
	if err != nil {
		return err
	}
	for _, event := range []string{"cert_failed", "cert_obtained"} {
		if err := app.(*caddyevents.App).On(event, certificateWatch{}); err != nil {
			return fmt.Errorf("watching certificates: %w", err)
		}
	}
	return nil
}

// findCertificates finds those of the hosts that a configuration serves with TLS.
func findCertificates(ctx caddy.Context) []engine.Certificate {
	app, err := ctx.AppIfConfigured("http")
	if err != nil {
		return nil
	}
	var list []engine.Certificate
	for _, host := range tlsHosts(app.(*caddyhttp.App)) {
		c := engine.Certificate{Host: host}
		leaf := newestLeaf(cachedCertificates(host))
		if leaf != nil {
			expires := leaf.NotAfter.UTC()
			c.Expires, c.Begins, c.Issuer = &expires, leaf.NotBefore.UTC(), failureText(leaf.Issuer.CommonName)
		}
		c.Failed = failureOf(host, leaf)
		list = append(list, c)
	}
	return list
}

// tlsHosts are the hosts that routes of servers with TLS match, sorted.
func tlsHosts(app *caddyhttp.App) (hosts []string) {
	for _, server := range app.Servers {
		if len(server.TLSConnPolicies) == 0 {
			continue
		}
		for _, route := range server.Routes {
			for _, set := range route.MatcherSets {
				for _, matcher := range set {
					if named, ok := matcher.(*caddyhttp.MatchHost); ok {
						hosts = append(hosts, *named...)
					}
				}
			}
		}
	}
	hosts = slices.DeleteFunc(hosts, func(host string) bool { return strings.Contains(host, "{") })
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

var _ caddyevents.Handler = certificateWatch{}
