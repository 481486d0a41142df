package admin

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"

	"github.com/stretchr/testify/require"
)

// freeAddress is one that nobody listens at. Its port lies below those that systems choose: nobody gets it by chance
// before it is used.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 5000+rand.IntN(5000)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, ln.Close())
		return ln.Addr().String()
	}
}

func TestOwnAdminAddress(t *testing.T) {
	t.Parallel()
	e := enginetest.New(t, nil)
	data := e.DataDir()
	l := &Listener{Listen: freeAddress(t)}
	require.NoError(t, l.Validate())
	require.NoError(t, l.Start(data, e, slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { require.NoError(t, l.Cleanup()) })
	require.NoError(t, gateway.WriteAddresses(data, "", l.Address()))

	c, err := NewClient(data, "")
	require.NoError(t, err)
	var v Status
	require.NoError(t, c.Call(t.Context(), "GET", "/fareway/status", nil, &v), "found by the data folder alone")
	require.Equal(t, data, v.Data)

	info, err := os.Stat(filepath.Join(data, adminCertificateKey))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	t.Run("from elsewhere", func(t *testing.T) {
		t.Parallel()
		elsewhere := t.TempDir()
		ask := func() error {
			c, err := NewClient(elsewhere, l.Listen)
			require.NoError(t, err)
			return c.Call(t.Context(), "GET", "/fareway/status", nil, new(Status))
		}
		require.ErrorContains(t, ask(), "its certificate is not the one in")
		copyFile(t, data, elsewhere, adminCertificateFile)
		require.ErrorContains(t, ask(), "there is none in "+elsewhere)
		copyFile(t, data, elsewhere, adminTokenFile)
		require.NoError(t, ask())
	})
	t.Run("nothing of Caddy's is there", func(t *testing.T) {
		t.Parallel()
		c, err := NewClient(data, l.Listen)
		require.NoError(t, err)
		for _, path := range []string{"/config/", "/load", "/stop", "/debug/pprof/", "/metrics"} {
			_, err := c.send(t.Context(), "GET", path, nil)
			require.ErrorContains(t, err, "404 Not Found", path)
		}
	})
	t.Run("not without TLS", func(t *testing.T) {
		t.Parallel()
		resp, err := http.Get("http://" + l.Listen + "/fareway/status")
		require.NoError(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, "%s", b)
	})
	t.Run("the certificate stays", func(t *testing.T) {
		t.Parallel()
		before, err := os.ReadFile(filepath.Join(data, adminCertificateFile))
		require.NoError(t, err)
		certificate, key, err := makeAdminCertificate(data)
		require.NoError(t, err)
		_, err = tls.LoadX509KeyPair(certificate, key)
		require.NoError(t, err)
		after, err := os.ReadFile(certificate)
		require.NoError(t, err)
		require.Equal(t, before, after)
	})
}

func copyFile(t *testing.T, from, to, name string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(from, name))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(to, name), b, 0o600))
}

func TestAdminListenerSettings(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, (&Listener{Listen: "127.0.0.1:1", Key: "k"}).Validate(), "name both files")
	require.ErrorContains(t, (&Listener{}).Validate(), "write host:port")
}

// At Caddy's own endpoint for remote administration the client's certificate is what guards.
func TestAdminTakesVerifiedCertificates(t *testing.T) {
	t.Parallel()
	e := enginetest.New(t, nil)
	h := adminOf(t, e).handler()
	ask := func(state *tls.ConnectionState) (int, string) {
		r := httptest.NewRequest("GET", "/fareway/status", nil)
		r.TLS = state
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, actorOf(r)
	}
	code, actor := ask(&tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{new(x509.Certificate)}}})
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "unknown via certificate", actor)
	code, actor = ask(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{new(x509.Certificate)}})
	require.Equal(t, http.StatusUnauthorized, code, "shown and not verified")
	require.Equal(t, "unknown via token", actor)
	code, _ = ask(nil)
	require.Equal(t, http.StatusUnauthorized, code)
}

func TestClientOfAGatewayWithoutAdminAPI(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	require.NoError(t, gateway.WriteAddresses(data, "", ""))
	c, err := NewClient(data, "")
	require.NoError(t, err)
	err = c.Call(t.Context(), "GET", "/fareway/status", nil, new(Status))
	require.ErrorIs(t, err, ErrNoGateway)
	require.ErrorContains(t, err, "`admin off`")
	require.NoError(t, gateway.WriteAddresses(data, "unix//run/elsewhere.sock|0660", "127.0.0.1:1"))
	c, err = NewClient(data, "")
	require.NoError(t, err)
	require.Equal(t, "unix//run/elsewhere.sock", c.Address)

	// Commands on a copy of the folder must not reach the original's gateway.
	copied := t.TempDir()
	copyOf, err := os.ReadFile(filepath.Join(data, gateway.AdminAddressesFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(copied, gateway.AdminAddressesFile), copyOf, 0o600))
	c, err = NewClient(copied, "")
	require.NoError(t, err)
	require.Equal(t, "unix/"+gateway.PlanSocketPath(copied, gateway.AdminSocket), c.Address)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(data, link))
	c, err = NewClient(link, "")
	require.NoError(t, err)
	require.Equal(t, "unix//run/elsewhere.sock", c.Address, "it is the same folder")
}
