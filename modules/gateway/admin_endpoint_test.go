package gateway

import (
	"encoding/json"
	"net"
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
		require.NoError(t, CheckAdminEndpoint(address), address)
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
		err := CheckAdminEndpoint(address)
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
		require.NoError(t, CheckAdminEndpoint("fd/"+strconv.Itoa(int(unixFile.Fd()))))
		require.ErrorContains(t, CheckAdminEndpoint("fd/"+strconv.Itoa(int(tcpFile.Fd()))), "no unix socket")
	})
}

// The configuration that is loaded is looked at as Caddy has it, whatever it came from.
func TestUnguardedAdminEndpointIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hcl := filepath.Join(dir, "gateway.hcl")
	require.NoError(t, os.WriteFile(hcl, []byte(exampleHCL), 0o600))
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

// TestWhereCertificatesAre: in the data folder, unless Caddy's usual place alone has some already.
func TestWhereCertificatesAre(t *testing.T) {
	t.Parallel()
	data, usual := t.TempDir(), t.TempDir()
	own := filepath.Join(data, "caddy")
	require.Equal(t, own, storageIn(data, usual))
	require.NoError(t, os.Mkdir(filepath.Join(usual, "certificates"), 0o700))
	require.Equal(t, usual, storageIn(data, usual))
	require.NoError(t, os.Mkdir(own, 0o700))
	require.Equal(t, own, storageIn(data, usual))
}

func TestDefaultAdminEndpoint(t *testing.T) {
	t.Parallel()
	require.True(t, strings.HasPrefix(caddy.DefaultAdminListen, "unix/"), caddy.DefaultAdminListen)
	require.True(t, strings.HasSuffix(caddy.DefaultAdminListen, "|0600"), caddy.DefaultAdminListen)
	require.Equal(t, "/data/admin.sock", PlanSocketPath("/data", AdminSocket))
	long := PlanSocketPath("/"+strings.Repeat("long", 30), AdminSocket)
	require.LessOrEqual(t, len(long), maxSocketPath)
}
