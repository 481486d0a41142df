//go:build linux

package doctor

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
)

// behind is a subject whose gateway answers probes and is reached through proxies of the test's; trusts says whether
// the gateway takes a proxy's word for who a client is.
func behind(t *testing.T, trusts bool, proxy func(to http.Handler) http.Handler) *Subject {
	t.Helper()
	s := healthy(t)
	answering := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		credential, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if r.URL.Path != "/v1/chat/completions" || !gateway.Probes.Opens(credential, time.Now()) {
			http.Error(w, "no key", http.StatusUnauthorized)
			return
		}
		client := hostOf(r.RemoteAddr)
		if forwarded := r.Header.Get("X-Forwarded-For"); trusts && forwarded != "" {
			client, _, _ = strings.Cut(forwarded, ",")
		}
		_ = gateway.AnswerProbe(context.Background(), w, r,
			&gateway.Call{From: netip.MustParseAddr(client)}) // it fails for nobody
	})
	direct := httptest.NewServer(answering)
	t.Cleanup(direct.Close)
	address, err := url.Parse(direct.URL)
	require.NoError(t, err)
	reverse := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(address)
		r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
		r.SetXForwarded()
	}}
	outside := httptest.NewServer(proxy(reverse))
	t.Cleanup(outside.Close)
	s.Site, s.URLs = nil, []string{outside.URL}
	s.answer(t)
	return s
}

// answer has an admin API that gives out credentials for probes.
func (s *Subject) answer(t *testing.T) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "a.sock")
	ln, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		credential, until, err := gateway.Probes.Make(time.Now())
		if err != nil {
			http.Error(w, err.Error(), http.StatusTooManyRequests)
			return
		}
		_ = json.NewEncoder(w).Encode(admin.Probe{Credential: credential, Until: until})
	})}
	go func() { _ = server.Serve(ln) }() // until Close
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	s.Client, err = admin.NewClient(s.Data, "unix/"+socket)
	require.NoError(t, err)
}

// find runs one check.
func find(t *testing.T, s *Subject, name string) Report {
	t.Helper()
	checks, err := Find([]string{name})
	require.NoError(t, err)
	for _, c := range checks {
		if c.Name == name {
			return Run(t.Context(), s, []Check{c}, time.Minute)
		}
	}
	require.Fail(t, "there is no such check", name)
	return Report{}
}

func through(to http.Handler) http.Handler { return to }

// whole has a proxy keep a reply until it is whole, as nginx does with proxy_buffering.
func whole(to http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept := httptest.NewRecorder()
		to.ServeHTTP(kept, r)
		for name, values := range kept.Header() {
			w.Header()[name] = values
		}
		w.Header().Set("Server", "nginx/1.24")
		w.WriteHeader(kept.Code)
		_, _ = w.Write(kept.Body.Bytes()) // who has left is nobody to tell
	})
}

// TestBufferingProxy: a proxy that keeps a stream until it is whole is found by when its events come, one that passes
// them on is not.
func TestBufferingProxy(t *testing.T) {
	t.Parallel()
	r := find(t, behind(t, true, through), "streams")
	require.Empty(t, r.Findings)
	require.Equal(t, []string{"streams"}, r.Passed)

	r = find(t, behind(t, true, whole), "streams")
	require.Len(t, r.Findings, 1)
	require.Equal(t, Error, r.Findings[0].Severity)
	require.Contains(t, r.Findings[0].Seen, "5 events that were sent over 1.2 s came within 0.0")
	require.Contains(t, r.Findings[0].Seen, "something on the way keeps the stream back (Server: nginx/1.24)")
}

// TestCompressingProxy: so is one that compresses.
func TestCompressingProxy(t *testing.T) {
	t.Parallel()
	r := find(t, behind(t, true, func(to http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			kept := httptest.NewRecorder()
			to.ServeHTTP(kept, r)
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, _ = z.Write(kept.Body.Bytes()) // into memory
			_ = z.Close()
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes()) // who has left is nobody to tell
		})
	}), "streams")
	require.Len(t, r.Findings, 1)
	require.Contains(t, r.Findings[0].Seen, "the stream comes compressed (gzip)")
}

// TestBreakingProxy: so is one that cuts a stream off.
func TestBreakingProxy(t *testing.T) {
	t.Parallel()
	r := find(t, behind(t, true, func(to http.Handler) http.Handler {
		return http.TimeoutHandler(to, 50*time.Millisecond, "504 Gateway Time-out")
	}), "streams")
	require.Len(t, r.Findings, 1)
	require.Contains(t, r.Findings[0].Seen, "the stream's request was answered by something else: 503")
}

// TestBodyLimitOfProxy: a proxy that takes a megabyte is found before an agent's prompt finds it.
func TestBodyLimitOfProxy(t *testing.T) {
	t.Parallel()
	require.Empty(t, find(t, behind(t, true, through), "body-size").Findings)
	r := find(t, behind(t, true, func(to http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 1<<20 {
				_, _ = io.Copy(io.Discard, r.Body) // as nginx does
				http.Error(w, "too large", http.StatusRequestEntityTooLarge)
				return
			}
			to.ServeHTTP(w, r)
		})
	}), "body-size")
	require.Len(t, r.Findings, 1)
	require.Contains(t, r.Findings[0].Seen, "a body of 2 MiB was answered with 413")
	require.Contains(t, r.Findings[0].Next, "client_max_body_size")
}

// TestClientAddress: a proxy that nobody trusts makes all clients one, and one that is trusted with whatever it passes
// on makes them anybody.
func TestClientAddress(t *testing.T) {
	t.Parallel()
	r := find(t, behind(t, false, through), "client-address")
	require.Len(t, r.Findings, 1)
	require.Contains(t, r.Findings[0].Seen, "a proxy at 127.0.0.1 says for whom it asks (X-Forwarded-For)")
	require.Contains(t, r.Findings[0].Next, "trusted_proxies static 127.0.0.1")

	r = find(t, behind(t, true, through), "client-address")
	require.Len(t, r.Findings, 1)
	require.Contains(t, r.Findings[0].Seen, "for 192.0.2.77 because it says so")
	require.Equal(t, Note, r.Findings[0].Severity, "from this machine it cannot be told whether others may, too")
}

// TestSilentProxy: a proxy that says for nobody makes all clients one, too.
func TestSilentProxy(t *testing.T) {
	t.Parallel()
	s := behind(t, true, func(to http.Handler) http.Handler {
		direct := to.(*httputil.ReverseProxy).Rewrite
		return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			direct(r)
			r.Out.Header.Del("X-Forwarded-For")
			r.Out.Header.Del("X-Real-Ip")
		}, ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Server", "nginx/1.24")
			return nil
		}}
	})
	r := find(t, s, "client-address")
	require.Len(t, r.Findings, 1, "%+v", r)
	require.Contains(t, r.Findings[0].Seen,
		"a proxy (Server: nginx/1.24) stands before the gateway, and does not say for whom")
}

// TestSilence: a proxy that waits less long than the reply takes is found, and nothing is passed where nobody asked.
func TestSilence(t *testing.T) {
	t.Parallel()
	s := behind(t, true, func(to http.Handler) http.Handler {
		return http.TimeoutHandler(to, 100*time.Millisecond, "504 Gateway Time-out")
	})
	s.Patience = time.Second
	r := find(t, s, "silence")
	require.Len(t, r.Findings, 1)
	require.Contains(t, r.Findings[0].Seen, "a reply that comes after 1 second was answered with 503")

	s = behind(t, true, through)
	s.Patience = 300 * time.Millisecond
	require.Empty(t, find(t, s, "silence").Findings)
}

// TestOldProxy: HTTP/1.1 where there is TLS.
func TestOldProxy(t *testing.T) {
	t.Parallel()
	s := behind(t, true, through)
	inner, err := url.Parse(s.URLs[0])
	require.NoError(t, err)
	old := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(inner))
	t.Cleanup(old.Close)
	s.URLs = []string{old.URL}
	r := find(t, s, "http-versions")
	require.Len(t, r.Findings, 1)
	require.Contains(t, r.Findings[0].Seen, "speaks HTTP/1.1, and not HTTP/2")
}

// TestStranger: another server where the public address leads is no gateway of ours.
func TestStranger(t *testing.T) {
	t.Parallel()
	s := behind(t, true, func(http.Handler) http.Handler { return http.NotFoundHandler() })
	r := find(t, s, "streams")
	require.Len(t, r.Findings, 1)
	require.Contains(t, r.Findings[0].Seen, "answered by something else: 404")
}

// TestDNSLeadsElsewhere: of a name's addresses each is asked whether the gateway is there.
func TestDNSLeadsElsewhere(t *testing.T) {
	t.Parallel()
	s := behind(t, true, through)
	u, err := url.Parse(s.URLs[0])
	require.NoError(t, err)
	s.URLs = []string{"http://api.example.com:" + u.Port()}
	s.Resolver = resolver(t, map[string][]string{"api.example.com.": {"127.0.0.1", "::1"}})
	r := find(t, s, "dns")
	require.Len(t, r.Findings, 1, "%+v", r)
	require.Contains(t, r.Findings[0].Seen, "api.example.com leads to ::1, and nobody answers there")
	require.Contains(t, r.Findings[0].Why, "clients with IPv6")
}

// issue makes a certificate.
func issue(t *testing.T, template *x509.Certificate, by *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	parent, signer := template, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// TestCertificates: what clients refuse is found as they would see it, by a real handshake.
func TestCertificates(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	now := time.Now()
	authority := func(name string, by *tls.Certificate) tls.Certificate {
		return issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-100 * day),
			NotAfter: now.Add(1000 * day), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, by)
	}
	root := authority("root", nil)
	between := authority("between", &root)
	site := func(host string, from, until time.Duration, by *tls.Certificate) tls.Certificate {
		return issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
			NotBefore: now.Add(from), NotAfter: now.Add(until)}, by)
	}
	chained := func(c tls.Certificate) tls.Certificate {
		c.Certificate = append(c.Certificate, between.Certificate[0])
		return c
	}
	for what, tc := range map[string]struct {
		shown    tls.Certificate
		severity Severity
		seen     string
	}{
		"good":        {chained(site("api.example.com", -day, 80*day, &between)), Note, ""},
		"expired":     {chained(site("api.example.com", -90*day, -day, &between)), Error, "has expired at "},
		"soon":        {chained(site("api.example.com", -88*day, 2*day, &between)), Warning, "and was not renewed"},
		"not yet":     {chained(site("api.example.com", day, 90*day, &between)), Error, "from "},
		"other name":  {chained(site("www.example.com", -day, 80*day, &between)), Error, "is for www.example.com"},
		"incomplete":  {site("api.example.com", -day, 80*day, &between), Error, "the chain is incomplete"},
		"self-signed": {site("api.example.com", -day, 80*day, nil), Error, "it is self-signed"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.TLS = &tls.Config{Certificates: []tls.Certificate{tc.shown}}
			server.StartTLS()
			t.Cleanup(server.Close)
			s := healthy(t)
			s.SiteRoots = x509.NewCertPool()
			s.SiteRoots.AddCert(root.Leaf)
			s.Site.Public = []Endpoint{{URL: "https://api.example.com:" + strings.TrimPrefix(server.URL, "https://127.0.0.1:"),
				Dial: strings.TrimPrefix(server.URL, "https://")}}
			s.Resolver = resolver(t, map[string][]string{"api.example.com.": {"127.0.0.1"}})
			r := find(t, s, "certificates")
			if tc.seen == "" {
				require.Empty(t, r.Findings)
				require.Empty(t, r.Skipped)
				return
			}
			require.Len(t, r.Findings, 1, "%+v", r)
			require.Equal(t, tc.severity, r.Findings[0].Severity)
			require.Contains(t, r.Findings[0].Seen, tc.seen)
		})
	}
}
