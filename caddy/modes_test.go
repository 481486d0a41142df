//go:build linux

package main_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// laxGateway is a data folder, and one for temporary files, of a gateway whose umask keeps nothing from anybody.
type laxGateway struct {
	*gateway
	data, temp string
	program    string
	seen       map[string]bool // what a walk has met, below data or temp
}

func newLaxGateway(t *testing.T) *laxGateway {
	t.Helper()
	short, err := os.MkdirTemp("", "fw") //nolint:usetesting // t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(short)) })
	l := &laxGateway{data: filepath.Join(t.TempDir(), "data"), temp: short, // it makes the former
		program: filepath.Join(t.TempDir(), "fareway"), seen: make(map[string]bool)}
	program, err := exec.LookPath("fareway")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(l.program, []byte("#!/bin/sh\numask 0\nexport TMPDIR="+short+"\nexec "+program+
		" \"$@\"\n"), 0o700))
	return l
}

// run runs a command.
func (l *laxGateway) run(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(l.program, append(args, "--data", l.data)...)
	cmd.Dir, cmd.Env = filepath.Dir(l.program), fareway(filepath.Dir(l.program)).Env
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", args, out)
}

// start starts the gateway and waits until it serves.
func (l *laxGateway) start(t *testing.T) {
	t.Helper()
	l.gateway = &gateway{Dir: l.data, ended: make(chan struct{})}
	l.launchIn(t, filepath.Dir(l.program), l.program)
	require.NoError(t, l.listening(withTimeout(t)))
	key, err := os.ReadFile(filepath.Join(l.data, "trial.key"))
	require.NoError(t, err)
	l.Key = strings.TrimSpace(string(key))
}

// requireOwn walks all that was written: it is its owner's only.
func (l *laxGateway) requireOwn(t *testing.T, when string) {
	t.Helper()
	var others []string
	for _, dir := range []string{l.data, l.temp} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if strings.HasPrefix(path, filepath.Join(l.data, "caddy", "locks")+"/") {
				return nil // certmagic's own: they come and go, in a folder that nobody else enters
			}
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")
			l.seen[name] = true
			if info.Mode().Perm()&0o077 != 0 && info.Mode()&fs.ModeSymlink == 0 {
				others = append(others, name+" "+info.Mode().String())
			}
			return nil
		}))
	}
	require.Empty(t, others, when)
}

// requireSeen requires that walks have met all of these, with * and ? as path.Match has them.
func (l *laxGateway) requireSeen(t *testing.T, patterns ...string) {
	t.Helper()
	all := slices.Sorted(maps.Keys(l.seen))
	for _, pattern := range patterns {
		require.True(t, slices.ContainsFunc(all, func(name string) bool {
			match, err := path.Match(pattern, name)
			require.NoError(t, err)
			return match
		}), "%s is not among %s", pattern, strings.Join(all, "\n"))
	}
}

// files are those in the data folder that a pattern matches.
func (l *laxGateway) files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(l.data, pattern))
	require.NoError(t, err)
	return found
}

// crashWithSpool kills the gateway with settlements in its spool, of which one is damaged then.
func (l *laxGateway) crashWithSpool(t *testing.T, up *upstream.Server) {
	t.Helper()
	f := &faulty{gateway: l.gateway, up: up, client: http.DefaultClient, key: l.account(t, 1000)}
	requests := f.open(t, 0)
	lock := lockLedger(t, l.data)
	up.Open("round0")
	for _, r := range requests {
		require.Equal(t, http.StatusOK, (<-r.reply).status)
	}
	l.requireOwn(t, "with a spool that is filled")
	l.kill()
	lock.release(t)
	flip(t, filepath.Join(l.data, "fareway.db.spool"), 4096+1024+100)
}

// flip damages a byte of a file.
func flip(t *testing.T, file string, at int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	require.NoError(t, err)
	b[0] ^= 8
	_, err = f.WriteAt(b, at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// TestAllIsItsOwnersOnly walks what a gateway writes, again and again on a bad day: all is its owner's only.
func TestAllIsItsOwnersOnly(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	g := newLaxGateway(t)
	in := func(name string) string { return filepath.Join(g.data, name) }
	g.start(t)
	g.requireOwn(t, "trial")
	config := "gateway {\n  request_log = \"1s\"\n}\n\npre_auth {\n  failures_per_minute = 0\n}\n" + hcl(up)
	require.NoError(t, os.WriteFile(in("gateway.hcl"), []byte(config), 0o600))
	caddyfile, err := os.ReadFile(in("Caddyfile"))
	require.NoError(t, err)
	changed := strings.NewReplacer("roll_size 50MiB", "roll_size 1MiB", "import admin.caddy",
		fmt.Sprint("admin 127.0.0.1:", freePort(t))).Replace(string(caddyfile))
	require.NoError(t, os.WriteFile(in("Caddyfile"), []byte(changed), 0o600))
	g.run(t, "gateway", "account", "create", "ann")
	g.run(t, "gateway", "key", "create", "--account", "ann", "--name", "a")
	g.stop(t)
	log, err := os.OpenFile(in("fareway.log"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = log.WriteString(strings.Repeat("\n", 1<<20-500))
	require.NoError(t, errors.Join(err, log.Close()))
	g.start(t)
	ask := func() {
		for _, s := range shapes {
			for _, stream := range []bool{false, true} {
				s.send(t, http.DefaultClient, g.URL, g.Key, "hello", stream).all(t)
				s.send(t, http.DefaultClient, g.URL, mistyped(g.Key), "hello", stream)
			}
		}
	}
	eventually(t, func() (bool, string) {
		ask()
		return len(g.files(t, "fareway-*.log")) > 0 && len(g.files(t, "requests/*-[2-9].jsonl")) > 0, "no log has rolled"
	})
	g.requireOwn(t, "with logs that have rolled")
	g.hangUp(t, nil, ".renamed")
	g.run(t, "gateway", "backup", in("backup.tar"))
	g.run(t, "gateway", "ledger", "export", "-o", in("journal"), "--checkpoint-file", in("check"))
	g.run(t, "gateway", "ledger", "checkpoint", "-o", in("checkpoint"))
	g.run(t, "gateway", "ledger", "prune", "--before", "1d", "--yes")
	g.requireOwn(t, "after commands")
	g.crashWithSpool(t, up)
	g.requireOwn(t, "after a crash")
	g.start(t)
	g.requireOwn(t, "with an aside")
	g.run(t, "gateway", "ledger", "spool", "discard", "--all", "--reason", "test")
	ask()
	g.kill()
	flip(t, in("fareway.db-wal"), 32+24+100)
	g.start(t)
	g.requireOwn(t, "with a damaged log")
	g.run(t, "gateway", "ledger", "accept-loss", "--reason", "test")
	g.terminate(t)
	<-g.ended
	g.run(t, "gateway", "restore", in("backup.tar"), "--replace", "--reason", "test")
	g.requireOwn(t, "after a restore")
	g.requireSeen(t, "admin.crt", "admin.key", "admin.sock", "admin.token", "backup.tar", "check", "checkpoint",
		"configurations/2.json", "fareway-*-size.log", "fareway.log.renamed", "fareway.db-shm", "fareway.db-wal",
		"fareway.db-wal.accepted-*", "fareway.db-wal.damaged-*", "fareway.db.decisions", "fareway.db.decisions-wal",
		"fareway.db.spool", "fareway.db.spool.aside", "fareway.db.witness", "health.sock", "journal",
		"ledger-before-restore-*/fareway.db.spool.aside", "metrics.token", "plugin-dir*/plugin*", "requests/*-[2-9].jsonl",
		"trial.key")
}
