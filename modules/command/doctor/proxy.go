package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/gateway"
)

var proxyChecks = []Check{
	{Name: "streams", About: "proxies", Worst: Error, needs: gatewayRuns,
		Looks: "whether a stream comes as it is sent, through the public address: no proxy buffers, compresses or cuts it",
		Why:   "clients wait for the whole reply, and time out",
		Next:  "proxy_buffering off;   # nginx, in the location of the gateway",
		run:   checkStreams},
	{Name: "client-address", About: "proxies", Worst: Error, needs: gatewayRuns,
		Looks: "whose address the gateway takes for a client's: the proxy's, the client's, or whatever a client says",
		Why:   "limits of an address count for all clients, or for nobody",
		Next:  "trusted_proxies static ADDRESS   # in `servers` of the Caddyfile",
		run:   checkClientAddress},
	{Name: "http-versions", About: "proxies", Worst: Warning, needs: gatewayRuns,
		Looks: "whether HTTP/2 and HTTP/3 are to be had at the public address",
		Why:   "over HTTP/1.1 each stream takes a connection, and browsers have six",
		Next:  "listen 443 ssl; http2 on;   # nginx",
		run:   checkVersions},
	{Name: "body-size", About: "proxies", Worst: Error, needs: gatewayRuns | configured,
		Looks: "whether a prompt of 2 MB gets through",
		Why:   "nginx takes 1 MB unless it is told otherwise, and agents send more",
		Next:  "client_max_body_size 32m;   # nginx",
		run:   checkBodySize},
	{Name: "redirects", About: "proxies", Worst: Error, needs: gatewayRuns,
		Looks: "whether plain HTTP is answered by a redirect that has clients send their key in clear, or another path",
		Why:   "a client that follows it has sent its key in clear, and does so each time",
		Next:  "answer plain HTTP with 403 for everything but GET /, as examples/public/Caddyfile does",
		run:   checkRedirects},
	{Name: "silence", About: "proxies", Worst: Error, needs: gatewayRuns,
		Looks: "whether a reply that comes after a long silence gets through (--patience 2m)",
		Why:   "replies in one piece are silent until they are whole, and a proxy with a shorter time-out answers 504",
		Next:  "proxy_read_timeout 600s;   # nginx",
		run:   checkSilence},
}

// eachWay probes all ways, and skips the check where none can be.
func (s *Subject) eachWay(ctx context.Context, r *result, ways []way, o order, f func(w way, a *answer)) {
	if len(ways) == 0 {
		r.skip("no public address is known: give it with --url https://...")
		return
	}
	for _, w := range ways {
		a, err := s.probe(ctx, w, o)
		switch {
		case errors.Is(err, errNoProbe):
			r.skip("%v", err)
			return
		case err != nil:
			r.skip("%s: %v", w.name(), err)
		case !a.isOurs() && !w.outside:
			r.skip("%s: what answers is not this gateway: %s", w.name(), a.status)
		default:
			f(w, a)
		}
	}
}

// allWays are the ways from here and from outside.
func (s *Subject) allWays() []way {
	list := s.ways()
	for _, w := range s.outsideWays() {
		if !slices.Contains(list, w) {
			list = append(list, w)
		}
	}
	return list
}

// The stream that is sent.
const (
	probeEvents = 4
	probePause  = 300 * time.Millisecond
)

func checkStreams(ctx context.Context, s *Subject, r *result) {
	o := order{ProbeOrder: gateway.ProbeOrder{Events: probeEvents, PauseMS: int(probePause.Milliseconds())}}
	s.eachWay(ctx, r, s.allWays(), o, func(w way, a *answer) { judgeStream(r, w, a) })
}

func judgeStream(r *result, w way, a *answer) {
	whole := probeEvents * probePause
	curl := fmt.Sprintf("curl -N -sS -D - %s/v1/chat/completions -H 'Authorization: Bearer KEY' "+
		"-d '{\"model\":\"service/auto\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"Count\"}]}'", w.url)
	if encoding := a.head.Get("Content-Encoding"); encoding != "" && strings.HasPrefix(a.status, "200") {
		r.found("%s: the stream comes compressed (%s)", w.name(), encoding).
			because("whoever compresses holds tokens back until there are enough of them").
			then("gzip off;   # nginx, in the location of the gateway; or turn compression of text/event-stream off at the CDN")
		return
	}
	if !a.isOurs() {
		r.found("%s: the stream's request was answered by something else: %s", w.name(), a.status).
			because("%s", strangerReason(a)).then("%s", curl)
		return
	}
	switch n := len(a.events); {
	case n < probeEvents+1:
		r.found("%s: %d of %d events came, and the stream broke off after %.1f s", w.name(), n, probeEvents+1,
			time.Since(a.begun).Seconds()).because("something cuts streams off").then("%s", curl)
	case a.events[n-1].Sub(a.events[0]) < whole/2:
		r.found("%s: %d events that were sent over %.1f s came within %.2f s, the first after %.1f s: something on the way "+
			"keeps the stream back%s", w.name(), n, whole.Seconds(), a.events[n-1].Sub(a.events[0]).Seconds(),
			a.first.Sub(a.begun).Seconds(), via(a.head))
	}
}

// via says who has had a reply in its hands, as far as that shows.
func via(h http.Header) string {
	var names []string
	for _, name := range []string{"Via", "Server", "Cf-Ray", "X-Cache", "X-Served-By"} {
		if v := h.Get(name); v != "" && v != "Caddy" {
			names = append(names, name+": "+v)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// strangerReason says what another answer may mean.
func strangerReason(a *answer) string {
	switch {
	case strings.HasPrefix(a.status, "401"):
		return "another gateway answers there, or a proxy takes away the header Authorization"
	case strings.HasPrefix(a.status, "3"):
		return "it is a redirect: clients do not send their prompt again"
	case strings.HasPrefix(a.status, "403"):
		return "a firewall, a bot protection or another site refuses it"
	case strings.HasPrefix(a.status, "404"), strings.HasPrefix(a.status, "405"):
		return "the path or the host does not lead to the gateway"
	case strings.HasPrefix(a.status, "413"):
		return "a proxy takes no bodies of this size"
	case strings.HasPrefix(a.status, "429"):
		return "too many requests from this address: of the gateway's limits, or a proxy's"
	case strings.HasPrefix(a.status, "50"):
		return "a proxy does not reach the gateway"
	}
	return "clients do not reach the gateway there"
}

// nobody is an address that no client has (RFC 5737).
const nobody = "192.0.2.77"

func checkClientAddress(ctx context.Context, s *Subject, r *result) {
	s.checkTrusted(r)
	s.eachWay(ctx, r, s.allWays(), order{}, func(w way, a *answer) {
		if !a.isOurs() {
			return // of the check `streams`
		}
		peer := hostOf(a.seen.Peer)
		lie, err := s.probe(ctx, w, order{headers: map[string]string{"X-Forwarded-For": nobody, "X-Real-Ip": nobody}})
		if err != nil || !lie.isOurs() {
			r.skip("%s: the second request was not answered: %s", w.name(), orStatus(lie, err))
			return
		}
		chain := strings.Split(strings.ReplaceAll(lie.seen.ForwardedFor, " ", ""), ",")
		last := chain[len(chain)-1] // whom the nearest proxy asks for; or what we have said, where there is none
		appended := len(chain) > 1 && chain[0] == nobody
		proxied := len(a.seen.Forwarded) > 0 && sameHost(a.seen.ClientIP, peer) && sameHost(lie.seen.ClientIP, peer)
		// Where this machine is the proxy's, its word for the client and its own address are the same.
		if proxied && (!sameHost(last, peer) || appended) {
			r.found("%s: a proxy at %s says for whom it asks (%s), and the gateway takes the proxy for the client", w.name(),
				peer, strings.Join(a.seen.Forwarded, ", ")).
				because("all clients are one address: together they reach its limits, and the log has no other").
				then("trusted_proxies static %s   # in `servers` of %s, and trusted_proxies_strict", peer, s.Caddyfile)
			return
		}
		if by := via(a.head); len(a.seen.Forwarded) == 0 && by != "" && w.outside {
			r.found("%s: a proxy%s stands before the gateway, and does not say for whom it asks: the gateway takes %s for the "+
				"client", w.name(), by, a.seen.ClientIP).
				because("all clients are one address: together they reach its limits, and the log has no other").
				then("proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;   # nginx; and trusted_proxies in %s",
					s.Caddyfile)
			return
		}
		if lie.seen.ClientIP != nobody {
			return
		}
		severity := Error
		if isPrivate(peer) && (!appended || isPrivate(last)) {
			severity = Note // we come from a private network, which may be trusted as a proxy is: elsewhere it may not be so
		}
		r.found("%s: the gateway takes a client for %s because it says so (X-Forwarded-For), over a connection from %s",
			w.name(), nobody, peer).as(severity).
			because("whoever likes can claim to come from anywhere, and no limit of an address holds").
			then("trusted_proxies static YOUR.PROXY.S.ADDRESS + trusted_proxies_strict   # in `servers` of %s", s.Caddyfile)
	})
}

func sameHost(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	return errX == nil && errY == nil && x.Unmap().WithZone("") == y.Unmap().WithZone("")
}

// checkTrusted looks at whom the Caddyfile trusts.
func (s *Subject) checkTrusted(r *result) {
	if s.Site == nil {
		return
	}
	apps := s.Site.apps()
	for _, name := range slices.Sorted(maps.Keys(apps.HTTP.Servers)) {
		server := apps.HTTP.Servers[name]
		if server.Trusted == nil || !server.hasGateway() {
			continue
		}
		for _, text := range server.Trusted.Ranges {
			_, network, err := net.ParseCIDR(text)
			if err != nil {
				continue
			}
			if network.IP.IsPrivate() || network.IP.IsLoopback() {
				continue // private_ranges has fd00::/8
			}
			if ones, bits := network.Mask.Size(); ones < 8 || bits == 128 && ones < 16 {
				r.found("trusted_proxies has %s", text).
					because("whoever likes can claim to come from anywhere, and no limit of an address holds").
					then("name your proxies' addresses only, in %s", s.Caddyfile)
			}
		}
		if server.TrustedStrict == 0 {
			r.found("trusted_proxies without trusted_proxies_strict").as(Warning).
				because("a proxy that adds to X-Forwarded-For passes on what a client has written there").
				then("trusted_proxies_strict   # in `servers` of %s", s.Caddyfile)
		}
	}
}

func checkVersions(ctx context.Context, s *Subject, r *result) {
	secure := slices.DeleteFunc(s.allWays(), func(w way) bool { return !strings.HasPrefix(w.url, "https://") })
	if len(secure) == 0 {
		return // without TLS there is HTTP/1.1
	}
	s.eachWay(ctx, r, secure, order{}, func(w way, a *answer) {
		if !a.isOurs() {
			return
		}
		if !strings.HasPrefix(a.protocol, "HTTP/2") {
			r.found("%s speaks %s, and not HTTP/2", w.name(), a.protocol)
		}
		if !strings.Contains(a.head.Get("Alt-Svc"), "h3=") {
			return
		}
		over, err := s.probe(ctx, w, order{protocol: "h3"})
		if errors.Is(err, errNoProbe) || errors.Is(err, errOtherNode) {
			r.skip("%s: HTTP/3: %v", w.name(), err)
			return
		}
		if err != nil || !over.isOurs() {
			r.found("%s offers HTTP/3 (Alt-Svc), and it cannot be had: %s", w.name(), orStatus(over, err)).
				because("browsers try it first and lose time").
				then("sudo ufw allow %s/udp   # or open it where your firewall is", w.port())
		}
	})
}

func orStatus(a *answer, err error) string {
	if err != nil {
		return err.Error()
	}
	return a.status
}

func checkBodySize(ctx context.Context, s *Subject, r *result) {
	const size = 2 << 20
	if s.Config.Gateway.MaxBody < size {
		r.found("max_body is %s", bytesText(uint64(s.Config.Gateway.MaxBody))).as(Note).
			because("agents send prompts of a megabyte and more")
	}
	s.eachWay(ctx, r, s.allWays(), order{size: size}, func(w way, a *answer) {
		switch {
		case !a.isOurs():
			r.found("%s: a body of %s was answered with %s", w.name(), bytesText(size), a.status).
				because("%s", strangerReason(a))
		case a.seen.Body < size:
			r.found("%s: %s of a body of %s came", w.name(), bytesText(uint64(a.seen.Body)), bytesText(size)).
				because("something on the way cuts bodies off")
		}
	})
}

func checkRedirects(ctx context.Context, s *Subject, r *result) {
	for _, w := range s.allWays() {
		host := urlHost(w.url)
		if !strings.HasPrefix(w.url, "https://") || !isName(host) {
			continue
		}
		plain := way{url: "http://" + host, outside: w.outside}
		if w.dial != "" {
			plain.dial = net.JoinHostPort(hostOf(w.dial), "80")
		}
		a, err := s.probe(ctx, plain, order{})
		switch {
		case errors.Is(err, errNoProbe), errors.Is(err, errOtherNode):
			r.skip("%s: %v", plain.name(), err)
			continue
		case err != nil:
			continue // nobody listens for plain HTTP: the best there can be
		}
		switch {
		case a.isOurs():
			r.found("%s serves requests with keys without TLS", plain.name()).
				because("a client with a mistyped address sends its key in clear and never hears of it")
		case strings.HasPrefix(a.status, "3"):
			r.found("%s answers a request with a key by a redirect (%s to %s)", plain.name(), a.status,
				a.head.Get("Location")).as(Warning)
		}
	}
}

func checkSilence(ctx context.Context, s *Subject, r *result) {
	if s.Patience == 0 {
		if len(s.outsideWays()) > 0 {
			r.skip("it takes as long as the silence: --patience 2m tries it, and costs nothing")
		}
		return
	}
	o := order{ProbeOrder: gateway.ProbeOrder{WaitMS: int(s.Patience.Milliseconds())},
		patience: s.Patience + 15*time.Second}
	s.eachWay(ctx, r, s.allWays(), o, func(w way, a *answer) {
		if !a.isOurs() {
			r.found("%s: a reply that comes after %s was answered with %s after %.0f s", w.name(), span(s.Patience),
				a.status, time.Since(a.begun).Seconds())
		}
	})
}
