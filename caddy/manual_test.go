//go:build linux

package main_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

var fence = regexp.MustCompile("(?s)```(hcl|console)\n(.*?)```")

// TestManualMoney runs what the manual's chapter on money shows: its plan, and every command in the order that it has.
func TestManualMoney(t *testing.T) {
	t.Parallel()
	chapter, err := os.ReadFile(filepath.Join("..", "modules", "manual", "money.md"))
	require.NoError(t, err)
	shown := map[string]string{}
	for _, m := range fence.FindAllStringSubmatch(string(chapter), -1) {
		require.NotContains(t, shown, m[1], "it has one of each")
		shown[m[1]] = m[2]
	}

	up := upstream.Start(t, upstream.Options{Script: model})
	g := startGateway(t, files{"gateway.hcl": hcl(up) + shown["hcl"]})
	reply := shapes[0].send(t, http.DefaultClient, g.URL, g.account(t, 1000), "hello", false)
	require.Equal(t, http.StatusOK, reply.StatusCode)
	ids := map[string]string{"REQUEST_ID": reply.Header.Get("X-Request-Id")}

	commands := strings.Split(strings.TrimSpace(shown["console"]), "\n")
	require.Greater(t, len(commands), 10)
	for _, line := range commands {
		command, ok := strings.CutPrefix(line, "$ fareway gateway ")
		require.True(t, ok, line)
		command, _, _ = strings.Cut(command, " # ")
		if strings.Contains(command, "KEY_ID") {
			var keys []struct{ ID string }
			require.NoError(t, json.Unmarshal(g.cli(t, "key", "list", "--account", "acme", "--json"), &keys))
			ids["KEY_ID"] = keys[0].ID
		}
		for name, id := range ids {
			command = strings.ReplaceAll(command, name, id)
		}
		like := fareway(g.Dir) // its folder and environment
		cmd := exec.CommandContext(withTimeout(t), "sh", "-c", "fareway gateway "+command+" --data "+g.Dir)
		cmd.Dir, cmd.Env = like.Dir, like.Env
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", command, out)
	}
	require.FileExists(t, filepath.Join(g.Dir, "journal.csv"))
}
