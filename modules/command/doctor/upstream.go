package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/plugins/llm"
)

var upstreamChecks = []Check{
	{Name: "upstreams", About: "services", Worst: Error, needs: configured,
		Looks: "whether each upstream answers, takes the key, and offers the routes' models (a list of models is free)",
		Why:   "requests to its routes fail",
		Next:  "fareway gateway check FILE --online",
		run:   checkUpstreams},
	{Name: "upstream-network", About: "services", Worst: Error, needs: configured,
		Looks: "the way to each upstream: DNS, connection, TLS and its certificate, proxies",
		Why:   "requests to its routes fail",
		Next:  "curl -v ADDRESS",
		run:   checkUpstreamNetwork},
}

// urlHost is the host of an address, "" where it is none.
func urlHost(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// look asks the upstreams once for all checks.
func (s *Subject) look(context.Context) engine.Looked {
	s.upstreams.Do(func() {
		ctx, cancel := context.WithTimeout(s.run, Patience)
		defer cancel()
		s.looked = engine.LookUpstreams(ctx, s.Config, slog.New(slog.DiscardHandler))
	})
	return s.looked
}

func checkUpstreams(ctx context.Context, s *Subject, r *result) {
	looked := s.look(ctx)
	unreached := s.unreached(ctx)
	for _, d := range looked.Diagnostics.All() {
		severity, elsewhere := Warning, false
		for name, u := range looked.Upstreams {
			if u.Err != nil && strings.Contains(d.Summary, strconv.Quote(name)) {
				severity = Error
				elsewhere = unreached[name] != nil && llm.KindOf(u.Err) == llm.ErrUpstream
			}
		}
		if elsewhere {
			continue // the check upstream-network says more
		}
		r.found("%s: %s", d.Position(), d.Summary).as(severity).because("%s", d.Detail).
			then("fareway gateway check %s --online", s.HCL)
	}
	var silent []string
	for _, p := range s.Config.Providers {
		if u := looked.Upstreams[p.Name]; !u.Asked && p.Plugin != "echo" {
			silent = append(silent, p.Name)
		}
	}
	if len(silent) > 0 {
		r.skip("plugins that cannot ask for a list of models, or do not start: %s", strings.Join(silent, ", "))
	}
}

// target is an upstream's address, with the providers that call it.
type target struct {
	engine.Address
	providers []string
}

// targets are the addresses of upstreams.
func (s *Subject) targets(ctx context.Context) (list []target) {
	looked := s.look(ctx)
	for _, name := range slices.Sorted(maps.Keys(looked.Upstreams)) {
		a := looked.Upstreams[name].Address
		u, err := url.Parse(a.URL)
		if err != nil || u.Host == "" {
			continue
		}
		i := slices.IndexFunc(list, func(t target) bool {
			known, _ := url.Parse(t.URL)
			return known.Host == u.Host && known.Scheme == u.Scheme && t.Proxy == a.Proxy
		})
		if i >= 0 {
			list[i].providers = append(list[i].providers, name)
			continue
		}
		list = append(list, target{a, []string{name}})
	}
	return list
}

func checkUpstreamNetwork(ctx context.Context, s *Subject, r *result) {
	targets := s.targets(ctx)
	if len(targets) == 0 {
		for _, p := range s.Config.Providers {
			if p.Plugin != "echo" {
				r.skip("no provider says where its upstream is")
			}
		}
		return
	}
	unreached := s.unreached(ctx)
	for _, t := range targets {
		if tell := unreached[t.providers[0]]; tell != nil {
			tell(r)
		}
	}
}

// unreached tries the way to each upstream, once for all checks, and returns by provider what tells of what is wrong.
func (s *Subject) unreached(context.Context) map[string]func(r *result) {
	s.network.Do(func() {
		ctx, cancel := context.WithTimeout(s.run, 2*Patience-time.Second)
		defer cancel()
		s.wrong = make(map[string]func(r *result))
		var mu sync.Mutex
		var going sync.WaitGroup
		for _, t := range s.targets(ctx) {
			going.Go(func() {
				tell := s.reach(ctx, &t)
				mu.Lock()
				defer mu.Unlock()
				for _, name := range t.providers {
					if tell != nil {
						s.wrong[name] = tell
					}
				}
			})
		}
		going.Wait()
	})
	return s.wrong
}

// proxyVariables are those that other programs take a proxy from.
var proxyVariables = []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"}

// reach tries an upstream's address, and returns what tells of what is wrong with it.
func (s *Subject) reach(ctx context.Context, t *target) func(r *result) {
	u, _ := url.Parse(t.URL)
	of := fmt.Sprintf("the upstream of %s, %s", strings.Join(t.providers, " and "), u.Host)
	if t.Proxy != "" {
		return s.reachProxy(ctx, t, of)
	}
	unused := ""
	for _, name := range proxyVariables {
		if value, ok := s.Env(name); ok && value != "" && !isPrivate(u.Hostname()) {
			unused = name
			break
		}
	}
	told := func(next, format string, a ...any) func(r *result) {
		return func(r *result) {
			f := r.found(format, a...).then("%s", next)
			if unused != "" {
				f.because("%s is set, and the gateway never takes a proxy from the environment", unused).
					then("proxy = env(%q)   # in the block config of provider %s", unused, t.providers[0])
			}
		}
	}
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	asking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	addresses, err := s.Resolver.LookupHost(asking, host)
	if none, ok := errors.AsType[*net.DNSError](err); err != nil && (asking.Err() != nil || ok && none.IsTimeout) {
		return told("resolvectl status; cat /etc/resolv.conf; getent hosts "+host, "%s: DNS does not answer: %v", of, err)
	}
	if err != nil {
		return told("getent hosts "+host, "%s: its name has no address: %v", of, err)
	}
	dialer := net.Dialer{Timeout: 8 * time.Second, Resolver: s.Resolver}
	conn, err := dialAny(ctx, &dialer, addresses, port)
	if err != nil {
		return told(fmt.Sprintf("nc -vz %s %s", host, port), "%s: no connection to %s: %v", of,
			strings.Join(addresses, ", "), err)
	}
	defer conn.Close()
	if u.Scheme != "https" {
		if !isPrivate(addresses[0]) {
			return func(r *result) {
				r.found("%s: its address has http://, and is not in a private network", of).as(Warning).
					because("prompts and the key go over the internet in clear").then("write https:// in base_url")
			}
		}
		return nil
	}
	config := t.TLS
	if config == nil {
		config = new(tls.Config)
	}
	config = config.Clone()
	if config.ServerName == "" {
		config.ServerName = host
	}
	_ = conn.SetDeadline(time.Now().Add(8 * time.Second))
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return told(fmt.Sprintf("openssl s_client -connect %s:%s -servername %s </dev/null", host, port, host),
			"%s: TLS: %s", of, certificateProblem(err, s.Now()))
	}
	leaf := secured.ConnectionState().PeerCertificates[0]
	if left := leaf.NotAfter.Sub(s.Now()); left < 3*24*time.Hour {
		return func(r *result) {
			r.found("%s: its certificate expires at %s", of, human.Moment(leaf.NotAfter)).as(Note).then("tell who runs it")
		}
	}
	return nil
}

// dialAny connects to the first of some addresses that takes it.
func dialAny(ctx context.Context, dialer *net.Dialer, addresses []string, port string) (conn net.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialer.Timeout)
	defer cancel()
	one := *dialer
	one.Timeout /= time.Duration(min(len(addresses), 4))
	for _, a := range addresses {
		if conn, err = one.DialContext(ctx, "tcp", net.JoinHostPort(a, port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// reachProxy tries the proxy of an upstream.
func (s *Subject) reachProxy(ctx context.Context, t *target, of string) func(r *result) {
	proxy, err := url.Parse(t.Proxy)
	if err != nil {
		return nil // the configuration's check says so
	}
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080"}[proxy.Scheme]
	}
	at := net.JoinHostPort(proxy.Hostname(), port)
	dialer := net.Dialer{Timeout: 8 * time.Second, Resolver: s.Resolver}
	conn, err := dialer.DialContext(ctx, "tcp", at)
	if err != nil {
		return func(r *result) {
			r.found("%s: its proxy %s cannot be reached: %v", of, at, err).
				then("look at `proxy` of provider %s in %s", t.providers[0], s.HCL)
		}
	}
	_ = conn.Close()
	return nil
}

// certificateProblem says in words what is wrong with a certificate.
func certificateProblem(err error, now time.Time) string {
	var (
		invalid x509.CertificateInvalidError
		host    x509.HostnameError
		unknown x509.UnknownAuthorityError
		alert   tls.AlertError
	)
	switch {
	case errors.As(err, &host):
		return fmt.Sprintf("its certificate is for %s, not for %s", namesOf(host.Certificate), host.Host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && now.After(invalid.Cert.NotAfter):
		return fmt.Sprintf("its certificate has expired at %s", human.Moment(invalid.Cert.NotAfter))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("its certificate is valid from %s on only, or this machine's clock is behind",
			human.Moment(invalid.Cert.NotBefore))
	case errors.As(err, &unknown):
		return fmt.Sprintf("this machine does not know who has issued its certificate (%v): it is self-signed, its chain "+
			"is incomplete, a proxy on the way opens TLS, or the package ca-certificates is missing", err)
	case errors.As(err, &alert):
		return fmt.Sprintf("it refuses the handshake: %v", err)
	}
	return err.Error()
}

// namesOf are the names that a certificate is for.
func namesOf(c *x509.Certificate) string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no name at all"
	}
	return some(names)
}

// clockAnswer is what one server said that the time is.
type clockAnswer struct {
	name   string
	offset time.Duration // how much it is ahead of us
}

// askTimes asks upstreams what time it is, by a request without a key, and the database.
func askTimes(ctx context.Context, s *Subject) (list []clockAnswer) {
	var mu sync.Mutex
	var asking sync.WaitGroup
	add := func(name string, offset time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, clockAnswer{name, offset})
	}
	if s.Config != nil {
		for _, t := range s.targets(ctx) {
			if t.Proxy == "" {
				asking.Go(func() {
					if offset, err := s.askTime(ctx, &t); err == nil {
						add(urlHost(t.URL), offset)
					}
				})
			}
		}
		asking.Go(func() {
			if server, err := s.inspectLedger(ctx); err == nil && !server.Now.IsZero() {
				add("the ledger's database", server.Now.Sub(s.Now()))
			}
		})
	}
	asking.Wait()
	slices.SortFunc(list, func(a, b clockAnswer) int { return strings.Compare(a.name, b.name) })
	return list
}

// askTime compares the header Date of a server with our clock. Its certificate may seem wrong for the clock's sake,
// and nothing secret is sent: it is not looked at.
func (s *Subject) askTime(ctx context.Context, t *target) (time.Duration, error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		return 0, err
	}
	dialer := net.Dialer{Timeout: 5 * time.Second, Resolver: s.Resolver}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, u.Scheme+"://"+u.Host+"/", nil)
	if err != nil {
		return 0, err
	}
	begun := s.Now()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	_ = resp.Body.Close()
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0, err
	}
	// The header has whole seconds, cut off; it was written somewhere in the middle.
	middle := begun.Add(s.Now().Sub(begun) / 2)
	return at.Add(500 * time.Millisecond).Sub(middle), nil
}
