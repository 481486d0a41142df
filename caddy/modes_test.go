//go:build linux

package main_test

import (
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestAllIsItsOwnersOnly walks the data folder after a day in the life of a gateway whose umask keeps nothing from
// anybody: issue 26, item 14.
func TestAllIsItsOwnersOnly(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: model})
	dir := filepath.Join(t.TempDir(), "data") // which it makes
	program, err := exec.LookPath("fareway")
	require.NoError(t, err)
	lax := filepath.Join(t.TempDir(), "fareway")
	require.NoError(t, os.WriteFile(lax, []byte("#!/bin/sh\numask 0\nexec "+program+" \"$@\"\n"), 0o700))
	others := func() (list []string) {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if strings.HasPrefix(path, filepath.Join(dir, "caddy", "locks")+"/") {
				return nil // certmagic's own: they come and go, in a folder that nobody else enters
			}
			info, err := d.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 && info.Mode()&fs.ModeSymlink == 0 {
				list = append(list, strings.TrimPrefix(path, dir)+" "+info.Mode().String())
			}
			return err
		}))
		return list
	}
	run := func(args ...string) {
		cmd := exec.Command(lax, append(args, "--data", dir)...)
		cmd.Dir, cmd.Env = filepath.Dir(lax), fareway(filepath.Dir(lax)).Env
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", args, out)
	}
	life := func() *gateway {
		g := &gateway{Dir: dir, ended: make(chan struct{})}
		g.launchIn(t, filepath.Dir(lax), lax)
		require.NoError(t, g.listening(withTimeout(t)))
		key, err := os.ReadFile(filepath.Join(dir, "trial.key"))
		require.NoError(t, err)
		g.Key = strings.TrimSpace(string(key))
		return g
	}
	g := life()
	require.Empty(t, others())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gateway.hcl"), []byte(hcl(up)), 0o600))
	run("gateway", "account", "create", "ann")
	run("gateway", "key", "create", "--account", "ann", "--name", "a")
	g.call(t, "POST", "/fareway/reload", nil, nil)
	for _, s := range shapes {
		for _, stream := range []bool{false, true} {
			s.send(t, http.DefaultClient, g.URL, g.account(t, 1000), "hello", stream)
			s.send(t, http.DefaultClient, g.URL, mistyped(g.Key), "hello", stream)
		}
	}
	run("gateway", "backup", filepath.Join(dir, "backup.tar"))
	run("gateway", "ledger", "export", "-o", filepath.Join(dir, "journal"), "--checkpoint-file",
		filepath.Join(dir, "check"))
	run("gateway", "ledger", "checkpoint", "-o", filepath.Join(dir, "checkpoint"))
	run("gateway", "ledger", "prune", "--before", "1d", "--yes")
	require.Empty(t, others())
	g.kill()
	require.Empty(t, others(), "after a crash")
	g = life()
	require.Empty(t, others())
	g.stop(t)
	run("gateway", "restore", filepath.Join(dir, "backup.tar"), "--replace", "--reason", "test")
	require.Empty(t, others(), "after a restore")
}
