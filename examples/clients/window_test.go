//go:build clients && linux

package clients_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// The agents reckon with the context window that the gateway says its model has, where they tell what they reckon
// with.
func TestAgentsContextWindow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		says string // with a window of 154,321 tokens
	}{
		"claude":   {[]string{"-p", "--output-format", "json", task}, `"contextWindow":154321`},
		"opencode": {[]string{"models", "fareway", "--verbose"}, `"context": 154321`},
		// It keeps a twentieth for itself, and tells so in the journal of its session.
		"codex": {[]string{"exec", "--profile", "fareway", "--skip-git-repo-check", task}, `"model_context_window":146604`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer agentSlot()()
			g := startGatewayWith(t, func(*upstream.Request) upstream.Reply { return upstream.Say("Hello.") }, 154_321)
			for _, a := range agents(t) {
				if a.name != name {
					continue
				}
				home := folder(t)
				g.connect(t, home, name, a.families[0], nil)
				out, err := a.run(t, home, folder(t), append(a.command(a.families[0])[:1], tt.args...)...)
				require.NoError(t, err, "%s", out)
				require.Contains(t, out+journals(t, filepath.Join(home, ".codex", "sessions")), tt.says)
			}
		})
	}
}

// journals is what the files below a folder hold, "" where there is none.
func journals(t *testing.T, folder string) (all string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		b, err := os.ReadFile(filepath.Join(folder, path))
		all += string(b)
		return err
	})
	require.NoError(t, err)
	return all
}
