//go:build linux

package main_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// diagnosis is what `gateway doctor --json` prints.
type diagnosis struct {
	Findings []struct{ Check, Severity, Seen, Why, Next string }
	Skipped  []struct{ Check, Why string }
	Passed   []string
}

// diagnose runs `gateway doctor` beside a gateway. What the machine of the tests is like is not looked at.
func diagnose(t *testing.T, g *gateway, args ...string) (d diagnosis) {
	t.Helper()
	cmd := fareway(g.Dir, append([]string{"gateway", "doctor", "--json", "--data", g.Dir, "files", "processes", "settings",
		"services", "money", "books", "servers", "public", "proxies"}, args...)...)
	out, _ := cmd.Output() // its status is whether something was found
	require.NoError(t, json.Unmarshal(out, &d), string(out))
	return d
}

func (d *diagnosis) counts() (texts []string) {
	for _, f := range d.Findings {
		if f.Severity != "note" {
			texts = append(texts, f.Check+": "+f.Seen)
		}
	}
	return texts
}

// TestDoctor: a gateway that was just started by `up` is in order as far as doctor says, streams included, which it
// sends through the public address; and what is then done to it is found.
func TestDoctor(t *testing.T) {
	t.Parallel()
	g := startGateway(t, nil)
	g.says = `(?s).*the saved configuration is refused.*`
	require.NoError(t, os.Chmod(g.Dir, 0o700)) // the folders of tests are not
	d := diagnose(t, g)
	require.Empty(t, d.counts())
	for _, check := range []string{"streams", "client-address", "body-size", "ports", "accounts", "in-force", "ledger",
		"data-folder", "secrets"} {
		require.Contains(t, d.Passed, check, "%+v", d)
	}
	for _, skip := range d.Skipped {
		require.Equal(t, "bill", skip.Check, "%+v", skip)
	}

	gatewayURL, err := url.Parse(g.URL)
	require.NoError(t, err)
	to := httputil.NewSingleHostReverseProxy(gatewayURL)
	nginx := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 1<<20 {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		kept := httptest.NewRecorder()
		to.ServeHTTP(kept, r)
		w.WriteHeader(kept.Code)
		_, _ = w.Write(kept.Body.Bytes()) // who has left is nobody to tell
	}))
	t.Cleanup(nginx.Close)
	require.NoError(t, os.Chmod(g.Dir, 0o755))
	hcl, err := os.ReadFile(filepath.Join(g.Dir, "gateway.hcl"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(g.Dir, "gateway.hcl"), append(hcl, "nonsense {}\n"...), 0o600))
	eventually(t, func() (bool, string) {
		d = diagnose(t, g, "--url", nginx.URL)
		seen := strings.Join(d.counts(), "\n")
		return strings.Contains(seen, "in-force: "+g.Dir+"/gateway.hcl is refused since"), seen
	})
	seen := strings.Join(d.counts(), "\n")
	for _, want := range []string{
		"data-folder: " + g.Dir + " is open to every user of this machine (mode 0755)",
		"configuration: " + g.Dir + "/gateway.hcl:",
		"streams: " + nginx.URL + ": 5 events that were sent over 1.2 s came within",
		"backups: no backup was ever made", // for it is public now
		"leftovers: the trial's key is in ",
	} {
		require.Contains(t, seen, want)
	}
	require.NoError(t, os.Chmod(g.Dir, 0o700))
}
