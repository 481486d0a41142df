//go:build clients && linux

package clients_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// installNode makes a plugin folder with examples/provider-node, as its README says, and returns the plugin's file.
func installNode(t *testing.T) (folder, file string) {
	t.Helper()
	dir := t.TempDir()
	sources, err := filepath.Glob("../provider-node/*.js")
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	for _, source := range sources {
		code, err := os.ReadFile(source)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(source)), code, 0o755))
	}
	protocol := (&gateway{}).run(t, "plugin", "proto")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "provider.proto"), []byte(protocol), 0o644))
	require.NoError(t, os.Symlink(filepath.Join(root(t), ".cache/clients/node/node_modules"),
		filepath.Join(dir, "node_modules")))
	folder = filepath.Join(dir, "plugins")
	require.NoError(t, os.Mkdir(folder, 0o755))
	file = filepath.Join(folder, "fareway-provider-node")
	require.NoError(t, os.Symlink(filepath.Join(dir, "provider.js"), file))
	return folder, file
}

// A provider in Node over the documented protocol.
func TestTheProviderInNodeKeepsEveryRule(t *testing.T) {
	t.Parallel()
	_, file := installNode(t)
	out := (&gateway{}).run(t, "plugin", "test", file, "--limit", "1m")
	require.Contains(t, out, " 0 broken, ")
}

// A predictor of one's own in another language than Go.
func TestThePredictorInNodeKeepsEveryRule(t *testing.T) {
	t.Parallel()
	_, file := installNode(t)
	file = filepath.Join(filepath.Dir(filepath.Dir(file)), "predictor.js")
	out := (&gateway{}).run(t, "plugin", "test", file, "--settings", `{"hard_words": ["prove"]}`, "--limit", "1m")
	require.Contains(t, out, " 0 broken, ")
	require.Regexp(t, `(?m)^pass +optional `, out)
}

func TestTheProviderInNodeAnswersThroughTheGateway(t *testing.T) {
	t.Parallel()
	folder, _ := installNode(t)
	g := &gateway{Data: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(g.Data, "gateway.hcl"), fmt.Appendf(nil, `
gateway {
  plugin_dir = %q
}

provider "greeter" {
  plugin        = "node"
  start_timeout = "1m"
  config {
    greeting = "Good morning"
  }
}

route "greet" {
  provider       = "greeter"
  model          = "any"
  context_window = 8192
  max_output     = 1024
  quality        = 0.5
  price {
    input  = 1
    output = 2
  }
}
`, folder), 0o600))
	g.start(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/chat/completions", strings.NewReader(
		`{"model": "service/auto", "messages": [{"role": "user", "content": "dear reader"}]}`))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+g.Key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode, "%s", body)
	var reply struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   struct {
			Input  int `json:"prompt_tokens"`
			Output int `json:"completion_tokens"`
		}
	}
	require.NoError(t, json.Unmarshal(body, &reply))
	require.Equal(t, "Good morning, dear reader", reply.Choices[0].Message.Content)
	require.Equal(t, 2, reply.Usage.Input)
	require.Equal(t, 4, reply.Usage.Output)
}

// What the example's package.json asks for is what these tests run it with.
func TestTheProviderInNodeIsTestedWithItsPackages(t *testing.T) {
	t.Parallel()
	read := func(file string) map[string]string {
		var v struct{ Dependencies map[string]string }
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &v))
		return v.Dependencies
	}
	tested := read("node/package.json")
	for name, version := range read("../provider-node/package.json") {
		require.Equal(t, tested[name], version, name)
	}
}
