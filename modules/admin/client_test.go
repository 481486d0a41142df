package admin

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
)

func TestClientErrors(t *testing.T) {
	t.Parallel()
	call := func(t *testing.T, data, admin string) error {
		t.Helper()
		c, err := NewClient(data, admin)
		require.NoError(t, err)
		return c.Call(t.Context(), "GET", "/fareway/status", nil, new(Status))
	}

	t.Run("no socket", func(t *testing.T) {
		t.Parallel()
		data := t.TempDir()
		err := call(t, data, "")
		require.ErrorIs(t, err, ErrNoGateway)
		require.EqualError(t, err, "no gateway is running on "+data+" (no admin socket at "+data+
			"/admin.sock): start it with `fareway gateway up --data "+data+"`")
	})
	t.Run("socket of a killed gateway", func(t *testing.T) {
		t.Parallel()
		data := t.TempDir()
		ln, err := net.Listen("unix", filepath.Join(data, gateway.AdminSocket))
		require.NoError(t, err)
		ln.(*net.UnixListener).SetUnlinkOnClose(false)
		require.NoError(t, ln.Close())
		require.ErrorIs(t, call(t, data, ""), ErrNoGateway)
	})
	t.Run("nobody at a TCP address", func(t *testing.T) {
		t.Parallel()
		const nobody = "127.0.0.1:1" // a port that no other test is given
		err := call(t, t.TempDir(), nobody)
		require.ErrorIs(t, err, ErrNoGateway)
		require.ErrorContains(t, err, "--admin "+nobody)
	})
	t.Run("nobody at a socket that was named", func(t *testing.T) {
		t.Parallel()
		admin := "unix/" + filepath.Join(t.TempDir(), "x.sock")
		err := call(t, t.TempDir(), admin)
		require.ErrorIs(t, err, ErrNoGateway)
		require.ErrorContains(t, err, "--admin "+admin)
	})
	t.Run("a socket of another user", func(t *testing.T) {
		t.Parallel()
		c, err := NewClient(t.TempDir(), "")
		require.NoError(t, err)
		denied := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}
		require.EqualError(t, c.explain(denied), "this user may not use the admin socket "+c.Dial+
			": be the user that runs the gateway, or root")
	})
	t.Run("another program", func(t *testing.T) {
		t.Parallel()
		data, address := serveTLS(t, http.NotFoundHandler())
		err := call(t, data, address)
		require.ErrorContains(t, err, "is no fareway gateway")
	})
	t.Run("no token", func(t *testing.T) {
		t.Parallel()
		data, address := serveTLS(t, adminOf(t, enginetest.New(t, nil)).handler())
		err := call(t, data, address)
		require.ErrorContains(t, err, "there is none in "+data)
	})
	t.Run("a stranger", func(t *testing.T) {
		t.Parallel()
		asked := false
		_, address := serveTLS(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
		data := t.TempDir()
		err := call(t, data, address)
		require.ErrorContains(t, err, "its certificate is not the one in "+filepath.Join(data, adminCertificateFile))
		require.False(t, asked, "it has not seen the token")
	})
	t.Run("no TLS", func(t *testing.T) {
		t.Parallel()
		srv := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(srv.Close)
		require.Error(t, call(t, t.TempDir(), strings.TrimPrefix(srv.URL, "http://")))
	})
	t.Run("address that is none", func(t *testing.T) {
		t.Parallel()
		_, err := NewClient(t.TempDir(), "127.0.0.1:many")
		require.ErrorContains(t, err, "unix//path/to/admin.sock or host:port")
	})
}

// serveTLS serves h as a gateway's admin address; the folder has its certificate.
func serveTLS(t *testing.T, h http.Handler) (data, address string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are to fail
	srv.StartTLS()
	t.Cleanup(srv.Close)
	data = t.TempDir()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	require.NoError(t, os.WriteFile(filepath.Join(data, adminCertificateFile), certificate, 0o600))
	return data, strings.TrimPrefix(srv.URL, "https://")
}

// TestCallEndsWithItsHandler: who asks next isn't refused because of what was answered already.
func TestCallEndsWithItsHandler(t *testing.T) {
	t.Parallel()
	var late error
	h := newInProcess([]caddy.AdminRoute{{Pattern: "GET /answer", Handler: caddy.AdminHandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) error {
			_, err := io.WriteString(w, `{"a":1}`)
			require.NoError(t, err)
			_, late = io.WriteString(w, "\n") // nobody reads it who has gone after the object
			return nil
		})}})
	var v map[string]int
	require.NoError(t, h.client("here").Call(t.Context(), "GET", "/answer", nil, &v))
	h.running.Wait()
	require.NoError(t, late)
	require.Equal(t, 1, v["a"])
}
