//go:build linux

package main_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// snapshot is each file below a folder with its mode and content, but for those that ignored matches.
func snapshot(t *testing.T, dir string, ignored *regexp.Regexp) map[string]string {
	t.Helper()
	files := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(dir, path)
		if err != nil || relErr != nil || ignored != nil && ignored.MatchString(name) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(content)
			text += " " + hex.EncodeToString(sum[:])
		}
		files[name] = text
		return nil
	}))
	return files
}

// writingCommands are all commands that write, each with what makes it fail. DIR is the data folder, BAD a
// configuration with an error, GOOD one without, TAKEN an address that another program listens on, FILE a file, and
// JUNK a file that is none of what is asked for.
var writingCommands = []struct {
	args    string
	running bool // needs a gateway
	stopped bool // and none
}{
	{args: "up --data DIR --listen TAKEN"},
	{args: "up --data DIR --listen 127.0.0.1:0 --admin TAKEN"},
	{args: "up --data DIR --listen 127.0.0.1:0 --admin 127.0.0.1:0"},
	{args: "up --data DIR --listen 127.0.0.1:1x"},
	{args: "up --data DIR --listen 127.0.0.1:0", running: true},
	{args: "up --data DIR --listen 127.0.0.1:0 --admin unix/DIR/more.sock --no-selftest", running: true},
	{args: "up --data DIR/new/er --listen TAKEN"},
	{args: "up --data FILE/new"},
	{args: "init --data DIR"},
	{args: "init --data DIR/new/er --base-url http://127.0.0.1:1 --model m --price x"},
	{args: "init --file FILE/new/gateway.hcl --base-url http://127.0.0.1:1/v1 --model m --price 1/2"},
	{args: "init --file DIR/new/er --service nothing --force"},
	{args: "apply BAD --data DIR --yes", running: true},
	{args: "apply GOOD --data DIR", running: true},
	{args: "apply GOOD --data DIR --yes", stopped: true},
	{args: "apply DIR/none --data DIR --yes"},
	{args: "apply GOOD --data DIR --yes --watch x"},
	{args: "rollback 99 --data DIR --yes"},
	{args: "rollback x --data DIR --yes"},
	{args: "rollback 1 --data DIR --yes", stopped: true},
	{args: "account create ann --plan none --data DIR"},
	{args: "account create trial --data DIR"},
	{args: "account create ann --data DIR", stopped: true},
	{args: "account rename none other --data DIR"},
	{args: "account set-plan trial nosuch --data DIR"},
	{args: "account suspend none --data DIR"},
	{args: "account set-limit trial concurrent_requests x --data DIR"},
	{args: "account set-limit trial nothing 1 --data DIR"},
	{args: "account set-own-cap trial 0 --data DIR"},
	{args: "account set-own-cap trial x --data DIR"},
	{args: "account set-profile trial nosuch --data DIR"},
	{args: "account set-requires trial --retention x --data DIR"},
	{args: "key create --account none --name a --data DIR"},
	{args: "key create --account trial --name a --expires x --data DIR"},
	{args: "key revoke key_none --data DIR"},
	{args: "key rename key_none new --data DIR"},
	{args: "key rotate key_none --data DIR"},
	{args: "key set key_none --cap 1 --data DIR"},
	{args: "credit add --account trial x --data DIR"},
	{args: "credit add --account none 10 --data DIR"},
	{args: "credit adjust --account none --credits 1 --reason r --data DIR"},
	{args: "credit refund req_none --reason r --data DIR"},
	{args: "ledger prune --before x --yes --data DIR"},
	{args: "ledger prune --before 2999-01-01 --yes --data DIR"},
	{args: "ledger checkpoint -o FILE --data DIR"},
	{args: "ledger checkpoint -o DIR/none/file --data DIR"},
	{args: "ledger checkpoint -o DIR/checkpoint --data DIR", stopped: true},
	{args: "ledger export -o FILE --account none --data DIR"},
	{args: "ledger export -o FILE --since x --data DIR"},
	{args: "ledger export -o DIR/new --checkpoint-file DIR/none/file --data DIR"},
	{args: "ledger export -o FILE --checkpoint-file FILE/none --data DIR"},
	{args: "ledger spool apply none --reason r --data DIR", running: true},
	{args: "ledger accept-loss --data DIR"},
	{args: "backup FILE --data DIR"},
	{args: "backup DIR/none/file --data DIR"},
	{args: "backup DIR/new.tar --data DIR/none"},
	{args: "restore JUNK --data DIR --replace --reason r"},
	{args: "restore JUNK --data DIR/new/er"},
	{args: "restore DIR/none --data DIR/new/er"},
	{args: "restore JUNK --data DIR --checkpoint JUNK --replace --reason r"},
	{args: "route train --recorded DIR/none --out DIR/new/model"},
	{args: "route train --recorded DIR/caddy --out DIR/new/model"},
	{args: "route calibrate --recorded DIR/none --out FILE"},
	{args: "route calibrate --model JUNK --recorded DIR --out DIR/new/model"},
	{args: "route feedback req_none good --data DIR"},
	{args: "plugin new Bad_Name. --dir DIR/plugin"},
	{args: "plugin new mine --dir DIR"},
	{args: "plugin new mine --dir FILE/plugin"},
	{args: "plugin new mine --dir DIR/plugin --replace DIR"},
	{args: "fmt UGLY BAD"},
	{args: "fmt UGLY DIR/none"},
	{args: "connect codex --write --home DIR/home --key no-key --data DIR"},
	{args: "connect codex --undo --home DIR/home --data DIR"},
	{args: "connect codex --write --home FILE --data DIR --url http://127.0.0.1:1"},
}

// TestFailedCommandsHaveNoEffect: whatever is wrong with a command, nothing has changed after it.
func TestFailedCommandsHaveNoEffect(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })

	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	around := filepath.Dir(dir)
	const ugly = "route   \"a\"   {\n}\n"
	files{"gateway.hcl": hcl(up)}.write(t, dir)
	files{"bad.hcl": "route {", "good.hcl": hcl(up) + "\n# other\n", "file": "mine", "junk": "junk", "ugly.hcl": ugly}.
		write(t, around)
	fill := strings.NewReplacer("DIR", dir, "BAD", filepath.Join(around, "bad.hcl"), "GOOD",
		filepath.Join(around, "good.hcl"), "TAKEN", taken.Addr().String(), "FILE", filepath.Join(around, "file"), "JUNK",
		filepath.Join(around, "junk"), "UGLY", filepath.Join(around, "ugly.hcl"))

	// What a gateway that runs writes meanwhile, whatever the commands do.
	own := regexp.MustCompile(`^data/(fareway\.log|fareway\.db.*|conversations.*)$`)
	// What SQLite leaves of a look at the database.
	views := regexp.MustCompile(`^data/fareway\.db-(shm|wal)$`)
	g := runGateway(t, dir)
	books := func() (text string) {
		for _, what := range [...]string{"verify", "audit"} {
			out, err := fareway(around, "gateway", "ledger", what, "--json", "--data", dir).Output()
			require.NoError(t, err, string(out))
			text += string(out)
		}
		return text
	}
	check := func(args string, ignored *regexp.Regexp) {
		before := snapshot(t, around, ignored)
		cmd := fareway(around, append([]string{"gateway"}, strings.Fields(fill.Replace(args))...)...)
		out, err := cmd.CombinedOutput()
		require.Error(t, err, "%s: %s", args, out)
		require.NotContains(t, string(out), "panic")
		require.Equal(t, before, snapshot(t, around, ignored), "%s: %s", args, out)
	}
	before := books()
	for _, c := range writingCommands {
		if !c.stopped {
			check(c.args, own)
		}
	}
	require.Equal(t, before, books(), "nothing is on the audit trail, and no money has moved")
	g.stop(t)
	for _, c := range writingCommands {
		if !c.running {
			check(c.args, views)
		}
	}
}
