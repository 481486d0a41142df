package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"
)

func TestAdminEndpointHasToBeGuarded(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "unix//run/caddy.sock", "unix//run/caddy.sock|0600", "unix//run/caddy.sock|0660",
		"unixpacket//run/caddy.sock"} {
		require.NoError(t, checkAdminEndpoint(address), address)
	}
	for address, want := range map[string]string{
		"localhost:2019":            "every user of this machine can connect",
		":2019":                     "every user of this machine can connect",
		"[::1]:2019":                "every user of this machine can connect",
		"tcp/127.0.0.1:0":           "every user of this machine can connect",
		"unix//run/caddy.sock|0666": "0666 lets every user",
		"unix//run/caddy.sock|0222": "0222 lets every user",
		"unix/@caddy":               "no permissions",
		"fd/100000":                 "no unix socket",
	} {
		err := checkAdminEndpoint(address)
		require.ErrorContains(t, err, want, address)
		require.ErrorContains(t, err, "remove the global option `admin`", "what to do")
	}
	t.Run("sockets that were inherited", func(t *testing.T) {
		t.Parallel()
		unixLn, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
		require.NoError(t, err)
		defer unixLn.Close()
		tcpLn, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer tcpLn.Close()
		unixFile, err := unixLn.(*net.UnixListener).File()
		require.NoError(t, err)
		defer unixFile.Close()
		tcpFile, err := tcpLn.(*net.TCPListener).File()
		require.NoError(t, err)
		defer tcpFile.Close()
		require.NoError(t, checkAdminEndpoint("fd/"+strconv.Itoa(int(unixFile.Fd()))))
		require.ErrorContains(t, checkAdminEndpoint("fd/"+strconv.Itoa(int(tcpFile.Fd()))), "no unix socket")
	})
}

// The configuration that is loaded is looked at as Caddy has it, whatever it came from.
func TestUnguardedAdminEndpointIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hcl := filepath.Join(dir, hclFile)
	require.NoError(t, os.WriteFile(hcl, starterHCL, 0o600))
	load := func(admin string) error {
		data := filepath.Join(dir, "data")
		app, err := json.Marshal(map[string]any{"config": hcl, "data": data})
		require.NoError(t, err)
		cfg := new(caddy.Config)
		require.NoError(t, json.Unmarshal([]byte(`{`+admin+`"apps": {"fareway": `+string(app)+`}}`), cfg))
		validating.Lock()
		defer validating.Unlock()
		return caddy.Validate(cfg)
	}
	for name, admin := range map[string]string{
		"TCP":              `"admin": {"listen": "127.0.0.1:2999"},`,
		"enforced origins": `"admin": {"listen": "127.0.0.1:2999", "enforce_origin": true},`,
	} {
		require.ErrorContains(t, load(admin), "the admin endpoint at 127.0.0.1:2999 is not guarded", name)
	}
	for _, admin := range []string{"", `"admin": {},`, `"admin": {"disabled": true, "listen": "127.0.0.1:2999"},`,
		`"admin": {"listen": "unix//run/caddy.sock"},`} {
		require.NoError(t, load(admin), admin)
	}
	require.NoDirExists(t, filepath.Join(dir, "data"), "what is only validated leaves nothing behind")
}

func TestOwnAdminAddress(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	data := e.DataDir()
	port, err := freePort("127.0.0.1")
	require.NoError(t, err)
	l := &AdminListener{Listen: "127.0.0.1:" + port}
	require.NoError(t, l.validate())
	require.NoError(t, l.start(data, e, slog.New(slog.DiscardHandler)))
	t.Cleanup(l.stop)
	require.NoError(t, writeAddresses(data, "", l.address()))

	c, err := newClient(data, "")
	require.NoError(t, err)
	var v statusView
	require.NoError(t, c.call(t.Context(), "GET", "/fareway/status", nil, &v), "found by the data folder alone")
	require.Equal(t, data, v.Data)

	info, err := os.Stat(filepath.Join(data, adminCertificateKey))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	t.Run("from elsewhere", func(t *testing.T) {
		t.Parallel()
		elsewhere := t.TempDir()
		ask := func() error {
			c, err := newClient(elsewhere, l.Listen)
			require.NoError(t, err)
			return c.call(t.Context(), "GET", "/fareway/status", nil, new(statusView))
		}
		require.ErrorContains(t, ask(), "its certificate is not the one in")
		copyFile(t, data, elsewhere, adminCertificateFile)
		require.ErrorContains(t, ask(), "there is none in "+elsewhere)
		copyFile(t, data, elsewhere, adminTokenFile)
		require.NoError(t, ask())
	})
	t.Run("nothing of Caddy's is there", func(t *testing.T) {
		t.Parallel()
		c, err := newClient(data, l.Listen)
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
	require.NoError(t, (*AdminListener)(nil).validate())
	require.ErrorContains(t, (&AdminListener{Listen: "127.0.0.1:1", Key: "k"}).validate(), "name both files")
	require.ErrorContains(t, (&AdminListener{}).validate(), "write host:port")
}

// At Caddy's own endpoint for remote administration the client's certificate is what guards.
func TestAdminTakesVerifiedCertificates(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
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
	require.NoError(t, writeAddresses(data, "", ""))
	c, err := newClient(data, "")
	require.NoError(t, err)
	err = c.call(t.Context(), "GET", "/fareway/status", nil, new(statusView))
	require.ErrorIs(t, err, errNoGateway)
	require.ErrorContains(t, err, "`admin off`")
	require.NoError(t, writeAddresses(data, "unix//run/elsewhere.sock|0660", "127.0.0.1:1"))
	c, err = newClient(data, "")
	require.NoError(t, err)
	require.Equal(t, "unix//run/elsewhere.sock", c.address)

	// Commands on a copy of the folder must not reach the original's gateway.
	copied := t.TempDir()
	copyOf, err := os.ReadFile(filepath.Join(data, adminAddressesFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(copied, adminAddressesFile), copyOf, 0o600))
	c, err = newClient(copied, "")
	require.NoError(t, err)
	require.Equal(t, "unix/"+planSocketPath(copied, adminSocket), c.address)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(data, link))
	c, err = newClient(link, "")
	require.NoError(t, err)
	require.Equal(t, "unix//run/elsewhere.sock", c.address, "it is the same folder")
}

func TestDefaultAdminEndpoint(t *testing.T) {
	t.Parallel()
	require.True(t, strings.HasPrefix(caddy.DefaultAdminListen, "unix/"), caddy.DefaultAdminListen)
	require.True(t, strings.HasSuffix(caddy.DefaultAdminListen, "|0600"), caddy.DefaultAdminListen)
	require.Equal(t, "/data/admin.sock", planSocketPath("/data", adminSocket))
	long := planSocketPath("/"+strings.Repeat("long", 30), adminSocket)
	require.LessOrEqual(t, len(long), maxSocketPath)
}
