//go:build browser

package browsertest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	_ "github.com/fareway/fareway/modules/auth"
	_ "github.com/fareway/fareway/modules/command"
	_ "github.com/fareway/fareway/modules/entry"
	_ "github.com/fareway/fareway/modules/exchange"
	_ "github.com/fareway/fareway/modules/families"
	"github.com/fareway/fareway/modules/internal/people/issuertest"
	_ "github.com/fareway/fareway/modules/limits"
	_ "github.com/fareway/fareway/modules/portal"
	"github.com/fareway/fareway/modules/verify/testbed"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// patience bounds whatever a test waits for. It is generous, for other tests run at the same time.
const patience = 30 * time.Second

// TestMain makes the test binary a gateway's executable, too: tests start it as one, and that starts itself as a
// provider. Chromium, and the gateway that most tests share, are started when a test first needs them.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "gateway" {
		caddycmd.Main()
		return
	}
	status := m.Run()
	for _, end := range ends {
		end()
	}
	os.Exit(status)
}

// ends are called when all tests have ended.
var ends []func()

// certificate is that of every gateway, for localhost, which Chromium and clients trust.
type certificate struct {
	folder, cert, key string // files
	pin               string // of its key, as Chromium has it
}

var theCertificate = sync.OnceValues(func() (c certificate, err error) {
	if c.folder, err = os.MkdirTemp("", "fwb"); err != nil {
		return c, err
	}
	ends = append(ends, func() { _ = os.RemoveAll(c.folder) })
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return c, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return c, err
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		return c, err
	}
	c.pin, c.cert, c.key = pinOf(made), filepath.Join(c.folder, "cert.pem"), filepath.Join(c.folder, "key.pem")
	if err := os.WriteFile(c.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return c, err
	}
	return c, os.WriteFile(c.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)
})

func pinOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// chromium is the one that all tests have windows of.
var chromium = sync.OnceValues(func() (context.Context, error) {
	c, err := theCertificate()
	if err != nil {
		return nil, err
	}
	other := httptest.NewTLSServer(nil) // of the certificate that servers of tests have
	other.Close()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU,
		// Of these no certificate is asked for; of any other it is.
		chromedp.Flag("ignore-certificate-errors-spki-list", c.pin+","+pinOf(other.Certificate())),
		chromedp.Flag("lang", "en-US"), chromedp.Env("LANGUAGE=en", "TZ=Europe/Berlin"),
		chromedp.WindowSize(1280, 900))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	ends = append(ends, func() {
		cancel()
		end()
	})
	return ctx, chromedp.Run(ctx) // it starts
})

// site is a gateway with a portal, over TLS.
type site struct {
	*testbed.Gateway
	url      string
	cert     string // the file of its certificate
	upstream *upstream.Server
}

const hcl = `
portal {
  url = %q
  %s
}

alerts {
  mail "links" {
    server = "127.0.0.1:9" # nobody listens: what would be mailed is handed over
    tls    = "none"
    from   = "fareway@example.com"
    links  = true
  }
}

provider "up" {
  plugin        = "openai"
  start_timeout = "1m"
  config {
    base_url = %q
  }
}

route "standard" {
  provider       = "up"
  model          = "standard"
  context_window = 200000
  max_output     = 64000
  quality        = 0.5
  offers         = ["tools"]
  price {
    input  = 3
    output = 15
  }
}

plan "trial" {
  monthly_credits = 0
}
`

const caddyfile = `{
	fareway {
		config gateway.hcl
		data .
		import admin.caddy
	}
	persist_config off
	auto_https disable_redirects
	storage fareway caddy
	log default {
		output discard
	}
}
(gateway) {
	fareway
}
import listen.caddy
%s {
	bind 127.0.0.1
	tls %q %q
	import gateway
}
`

// startSite runs a gateway. portal is more of that block; end ends it.
func startSite(ctx context.Context, address, portal string, o upstream.Options) (s *site, end func(), err error) {
	c, err := theCertificate()
	if err != nil {
		return nil, nil, err
	}
	up, err := upstream.Listen("127.0.0.1:0", o)
	if err != nil {
		return nil, nil, err
	}
	s = &site{url: address, cert: c.cert, upstream: up}
	s.Gateway, err = testbed.Start(ctx, fmt.Appendf(nil, hcl, address, portal, up.BaseURL()), map[string]string{
		"Caddyfile":     fmt.Sprintf(caddyfile, address, c.cert, c.key),
		"issuer.secret": issuertest.Secret})
	if err != nil {
		up.Close()
		return nil, nil, err
	}
	return s, func() {
		s.Close()
		up.Close()
	}, nil
}

// freeAddress is one that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return "https://localhost:" + port, err
}

// shared is the gateway of tests that leave it as it is for others.
var shared = sync.OnceValues(func() (*site, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s, end, err := startSite(context.Background(), address, "", upstream.Options{})
	if err == nil {
		ends = append(ends, end)
	}
	return s, err
})

func sharedSite(t testing.TB) *site {
	t.Helper()
	s, err := shared()
	require.NoError(t, err)
	return s
}

// ownSite is a gateway of the test's own.
func ownSite(t testing.TB, address, portal string, o upstream.Options) *site {
	t.Helper()
	s, end, err := startSite(t.Context(), address, portal, o)
	require.NoError(t, err)
	t.Cleanup(end)
	return s
}
