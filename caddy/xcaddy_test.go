//go:build linux

package main_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// xcaddyMain is the main package that xcaddy writes for `--with github.com/fareway/fareway/modules`.
const xcaddyMain = `package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	// plug in Caddy modules here
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/fareway/fareway/modules"
)

func main() {
	caddycmd.Main()
}
`

// TestXcaddy builds a gateway of the modules alone, without a line of this package, and sends a request through it. It
// is called caddy, as xcaddy calls it, and calls itself so.
func TestXcaddy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, overlay, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json"),
		filepath.Join(dir, "caddy")
	require.NoError(t, os.WriteFile(source, []byte(xcaddyMain), 0o600))
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	replace,
		err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "caddy/xcaddy/main.go"): source}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))
	// Without its symbols it is linked in half the time.
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-ldflags", "-s -w", "-o", program,
		"./caddy/xcaddy")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	data := filepath.Join(dir, "data")
	g := &gateway{Dir: data, ended: make(chan struct{})}
	require.NoError(t, os.Mkdir(data, 0o700))
	g.launch(t, program)
	require.NoError(t, g.listening(withTimeout(t)))
	key, err := os.ReadFile(filepath.Join(data, "trial.key"))
	require.NoError(t, err)
	reply := shapes[0].send(t, http.DefaultClient, g.URL, strings.TrimSpace(string(key)), "hello", false)
	require.Equal(t, http.StatusOK, reply.StatusCode)
	require.Contains(t, reply.all(t), "You said: hello")

	run := func(args ...string) string {
		cmd := fareway(data, args...)
		cmd.Path, cmd.Args[0], cmd.Err = program, program, nil
		out, _ := cmd.CombinedOutput() // some of them fail, and say why
		return string(out)
	}
	require.Contains(t, run("gateway", "status", "--data", data), "ready")
	require.Contains(t, run("validate", "--config", filepath.Join(data, "Caddyfile")), "Valid configuration",
		"beside the gateway")
	g.stop(t)

	for _, args := range [][]string{
		{"gateway", "status", "--data", filepath.Join(dir, "nothing")}, {"gateway", "status", "--help"},
		{"gateway", "up", "--help"},
		{"gateway", "--help"}, {"gateway", "check", "nothing.hcl"}, {"gateway", "connect", "nothing"},
		{"gateway", "account", "show"}, {"gateway", "ledger", "export", "--help"},
	} {
		out := run(args...)
		require.NotContains(t, out, "fareway gateway", "%s", args)
	}
	require.Contains(t, run("gateway", "status", "--data", dir), "`caddy gateway up --data")
	for _, name := range []string{"Caddyfile", "gateway.hcl", "listen.caddy"} {
		b, err := os.ReadFile(filepath.Join(data, name))
		require.NoError(t, err)
		require.NotContains(t, string(b), "fareway gateway", name)
		require.Contains(t, string(b), "caddy gateway", name)
	}
}
