//go:build linux

package public_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// authority is Pebble, Let's Encrypt's small ACME server, with certificates of a given life. It validates for real:
// every name is this machine's, by a resolver of its own.
type authority struct {
	url   string
	root  string // the file with what vouches for its HTTPS
	roots *x509.CertPool
	stop  func()
}

func startAuthority(t *testing.T, g *gateway, life time.Duration) *authority {
	t.Helper()
	quiet := log.New(io.Discard, "", 0)
	memory := db.NewMemoryStore()
	issuer := ca.New(quiet, memory, "", "ecdsa", 0, 1, map[string]ca.Profile{
		"default": {Description: "a test's", ValidityPeriod: uint64(life / time.Second)}})
	validator := va.New(quiet, g.plain, g.secure, false, resolver(t), memory)
	front := wfe.New(quiet, memory, validator, issuer, []string{"pebble.test"}, false, false, 0, 0)

	certificate, rootPEM := selfSigned(t)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	require.NoError(t, err)
	server := &http.Server{Handler: front.Handler(), ErrorLog: quiet}
	go func() { _ = server.Serve(ln) }() // it ends with an error, when it is closed
	a := &authority{url: fmt.Sprintf("https://%s%s", ln.Addr(), wfe.DirectoryPath),
		root: filepath.Join(t.TempDir(), "ca.pem"), roots: x509.NewCertPool(), stop: func() { _ = server.Close() }}
	t.Cleanup(a.stop)
	require.NoError(t, os.WriteFile(a.root, rootPEM, 0o600))
	a.roots.AddCert(issuer.GetRootCert(0).Cert)
	return a
}

// resolver says of every name that it is this machine. Pebble asks by TCP.
func resolver(t *testing.T) string {
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &dns.Server{Listener: socket, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		reply := new(dns.Msg).SetReply(r)
		for _, q := range r.Question {
			if q.Qtype == dns.TypeA {
				reply.Answer = append(reply.Answer, &dns.A{A: net.IPv4(127, 0, 0, 1),
					Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}})
			}
		}
		_ = w.WriteMsg(reply)
	})}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = server.Shutdown() })
	return socket.Addr().String()
}

func selfSigned(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestACME: a domain and an e-mail are enough. The certificate comes from an ACME server that validates, serves each
// version of HTTP, and is renewed; when the server has gone, the certificate ends and status says both.
func TestACME(t *testing.T) {
	t.Parallel()
	const life = 20 * time.Second
	var a *authority
	g := startGateway(t, func(g *gateway) string {
		a = startAuthority(t, g, life)
		return fmt.Sprintf("\tacme_ca %s\n\tacme_ca_root %s\n\trenew_interval 1s", a.url, a.root)
	})
	first := g.waitForCertificate(t, a.roots)
	require.Equal(t, []string{domain}, first.DNSNames)
	g.isServed(t, a.roots)
	require.Regexp(t, `certificate +gateway\.test: valid until .*, from "Pebble `, g.command(t, "status"))

	require.Eventually(t, func() bool {
		return g.waitForCertificate(t, a.roots).SerialNumber.Cmp(first.SerialNumber) != 0
	}, patience, 100*time.Millisecond, "it is renewed while it serves")

	a.stop()
	var status string
	require.Eventually(t, func() bool {
		status = g.command(t, "status")
		return expired.MatchString(status)
	}, patience, 200*time.Millisecond, "status: %s", status)
	require.Regexp(t, `fareway_certificate_failed\{host="gateway\.test"\} 1`, g.metrics(t))
	for version, client := range g.protocols(t, a.roots) {
		_, err := client.Get("https://" + domain + "/v1/models")
		require.ErrorContains(t, err, "expired", version)
	}
}

var expired = regexp.MustCompile(`certificate +gateway\.test: EXPIRED at .*; getting a new one has FAILED at .*` +
	`refused`)

// metrics reads them as a Prometheus on this machine does.
func (g *gateway) metrics(t *testing.T) string {
	t.Helper()
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", g.metricsAt))
	require.NoError(t, err)
	content, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return string(content)
}
