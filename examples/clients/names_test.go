//go:build clients && linux

package clients_test

import (
	"encoding/json"
	"fmt"
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

// knownNames are the model names in testdata/names.txt: those that clients send on their own. A test of
// modules/internal/routing holds the built-in list to them, without any client.
func knownNames(t testing.TB) (names []string) {
	b, err := os.ReadFile("testdata/names.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			names = append(names, line)
		}
	}
	return names
}

// The installed clients are asked for the names that they choose from. Those of the two families are accepted, but
// for names with a slash, which belong to other routers (GAP-07, MODEL-18), and for what is no language model.
func TestNamesOfInstalledClients(t *testing.T) {
	t.Parallel()
	g := startGateway(t, func(*upstream.Request) upstream.Reply { return upstream.Say("Hello.") })
	for client, list := range map[string]func(*testing.T) []string{"codex": codexNames, "opencode": openCodeNames,
		"qwen": qwenNames} {
		t.Run("MODEL-11 "+client, func(t *testing.T) {
			t.Parallel()
			defer agentSlot()()
			shows(t, client, "model ids")
			names := list(t)
			require.NotEmpty(t, names)
			var refused []string
			for _, name := range names {
				if strings.Contains(name, "/") || notForText.MatchString(name) {
					continue
				}
				body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Hello"}]}`, name)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/chat/completions",
					strings.NewReader(body))
				require.NoError(t, err)
				req.Header.Set("Authorization", "Bearer "+g.Key)
				resp, err := http.DefaultClient.Do(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				if resp.StatusCode != http.StatusOK {
					refused = append(refused, name)
				}
			}
			require.Empty(t, refused, "add them to modules/internal/routing/models.txt")
		})
	}
}

// The list of the libraries' own names is what the installed ones have.
func TestNamesOfLibraries(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./modules/internal/routing/gen", "-check", "-dir",
		"modules/internal/routing")
	cmd.Dir = root(t)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// notForText are models for pictures, speech and vectors.
var notForText = regexp.MustCompile("image|realtime|embedding")

// ask runs a client's own command, and returns what it printed.
func ask(t *testing.T, client string, args ...string) string {
	all := agents(t)
	for _, a := range all {
		if a.name == client {
			out, err := a.run(t, folder(t), folder(t), append(a.command(a.families[0])[:1], args...)...)
			require.NoError(t, err, out)
			return out
		}
	}
	panic("no such client: " + client)
}

func codexNames(t *testing.T) (names []string) {
	out := ask(t, "codex", "debug", "models")
	var catalog struct{ Models []struct{ Slug string } }
	require.NoError(t, json.NewDecoder(strings.NewReader(out[strings.Index(out, "{"):])).Decode(&catalog))
	for _, m := range catalog.Models {
		names = append(names, m.Slug)
	}
	return names
}

// openCodeNames are those of the two services whose families the gateway speaks; others' are other routers' names.
func openCodeNames(t *testing.T) (names []string) {
	t.Helper()
	home := folder(t)
	for _, a := range agents(t) {
		if a.name != "opencode" {
			continue
		}
		a.env = append(a.env, "OPENAI_API_KEY=x", "ANTHROPIC_API_KEY=x")
		out, err := a.run(t, home, home, a.command("chat")[0], "models")
		require.NoError(t, err, out)
		for line := range strings.Lines(out) {
			for _, service := range []string{"openai/", "anthropic/"} {
				if name, ok := strings.CutPrefix(strings.TrimSpace(line), service); ok {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// qwenNames are its defaults, as its code has them: no command tells them.
func qwenNames(t *testing.T) (names []string) {
	chunks, err := filepath.Glob(program(t, "@qwen-code/qwen-code/chunks/*.js"))
	require.NoError(t, err)
	constant := regexp.MustCompile(`(?:MAINLINE_CODER_MODEL|DEFAULT_QWEN_MODEL) = "([^"]+)"`)
	for _, path := range chunks {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range constant.FindAllSubmatch(b, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names
}
