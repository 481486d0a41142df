//go:build clients && linux

package clients_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// behaviours are the contract's list of what is verified for each build and client version (VER-05, VER-11).
var behaviours = []string{"streamed", "not streamed", "tools", "tool results", "stop", "count", "models", "account",
	"request id", "long context", "model ids", "cancellation"}

// package names of the clients, below the folder that installs them; go/ are modules of this repository.
var packages = map[string]string{
	"openai": "openai", "anthropic": "@anthropic-ai/sdk", "vercel": "ai", "langchain": "@langchain/core",
	"agents":    "@openai/agents",
	"go/openai": "github.com/openai/openai-go/v3", "go/anthropic": "github.com/anthropics/anthropic-sdk-go",
	"claude": "@anthropic-ai/claude-code-linux-x64", "codex": "@openai/codex", "opencode": "opencode-linux-x64-baseline",
	"qwen": "@qwen-code/qwen-code", "cline": "@cline/cli-linux-x64",
}

// excluded is what a client has no means for, with the reason.
var excluded = map[string]map[string]string{
	"not streamed": {
		"codex": alwaysStreams, "opencode": alwaysStreams, "cline": alwaysStreams,
	},
	"stop": {
		"codex": "it sends no stop sequences, and has no setting for them",
		"cline": "it sends no stop sequences, and has no setting for them",
	},
	"count": {
		"openai": noCount, "go/openai": noCount, "agents": noCall, "vercel": noCall,
		"langchain": "it estimates by itself (getNumTokens)",
		"codex":     "it estimates by itself", "opencode": "it estimates by itself",
		"qwen": "it estimates by itself", "cline": "it estimates by itself",
	},
	"models": {
		"vercel": noCall, "langchain": noCall, "agents": noCall,
		"codex":    "it asks for a list only with a login of its maker's",
		"opencode": "its models are those in its settings", "qwen": "its models are those in its settings",
		"cline": "its model is the one in its settings",
	},
	"account": {
		"vercel": noCall, "langchain": noCall, "agents": noCall,
		"claude": ownShape, "codex": ownShape, "opencode": ownShape, "qwen": ownShape, "cline": ownShape,
	},
}

const (
	noCall        = "the library has no call for it"
	noCount       = "the library has no call for it: OpenAI's shapes have no token count"
	alwaysStreams = "it always streams"
	ownShape      = "the request is the gateway's own, which no agent knows"
)

// verdict is one behaviour of a build with a client version.
type verdict struct {
	Client    string `json:"client"`
	Version   string `json:"version"`
	Build     string `json:"build"`
	Behaviour string `json:"behaviour"`
	Status    string `json:"status"` // PASS, FAIL, EXCLUDED or Pending
	Detail    string `json:"detail,omitempty"`
}

// board has what the tests of this run found.
var board struct {
	mu    sync.Mutex
	found map[[2]string]string // client and behaviour: the status
}

// shows notes that the test shows behaviours of a client: they hold when the test ends well.
func shows(t testing.TB, client string, names ...string) {
	for _, name := range names {
		require.Contains(t, behaviours, name)
	}
	t.Cleanup(func() {
		status := "PASS"
		if t.Failed() {
			status = "FAIL"
		}
		note(client, status, names...)
	})
}

func note(client, status string, names ...string) {
	board.mu.Lock()
	defer board.mu.Unlock()
	if board.found == nil {
		board.found = map[[2]string]string{}
	}
	for _, name := range names {
		if at := [2]string{client, name}; board.found[at] != "FAIL" {
			board.found[at] = status
		}
	}
}

// sawOnWire notes what the requests of a client show by themselves, all of which were answered.
func sawOnWire(client string, all []seen) {
	for _, s := range all {
		switch {
		case s.Status != 200:
		case s.family() != "" && s.Streamed:
			note(client, "PASS", "streamed")
		case s.family() != "":
			note(client, "PASS", "not streamed")
		case strings.HasSuffix(s.Path, "/count_tokens"):
			note(client, "PASS", "count")
		}
	}
}

// writeBoard writes the board of the run, as Markdown and as JSON, below .cache/clients.
func writeBoard() error {
	var all []verdict
	build := buildName()
	for _, client := range clientNames() {
		version := versionOf(client)
		for _, name := range behaviours {
			v := verdict{Client: client, Version: version, Build: build, Behaviour: name, Status: "Pending",
				Detail: "not tried with this client"}
			if found := board.found[[2]string{client, name}]; found != "" {
				v.Status, v.Detail = found, ""
			} else if why := excluded[name][client]; why != "" {
				v.Status, v.Detail = "EXCLUDED", why
			}
			all = append(all, v)
		}
	}
	to := "../../.cache/clients/board"
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return cmp.Or(os.WriteFile(to+".json", append(b, '\n'), 0o644),
		os.WriteFile(to+".md", []byte(boardTable(build, all)), 0o644))
}

// boardTable is the board with a line for each client.
func boardTable(build string, all []verdict) string {
	var out strings.Builder
	fmt.Fprintf(&out, "# Clients\n\nBuild: %s\n\n| client | version | %s |\n|---|---|%s\n", build,
		strings.Join(behaviours, " | "), strings.Repeat("---|", len(behaviours)))
	for chunk := range slices.Chunk(all, len(behaviours)) {
		fmt.Fprintf(&out, "| %s | %s |", chunk[0].Client, chunk[0].Version)
		for _, v := range chunk {
			fmt.Fprintf(&out, " %s |", v.Status)
		}
		out.WriteString("\n")
	}
	out.WriteString("\nPending: not tried with this client.\n\nEXCLUDED, for the client has no means for it:\n\n")
	for _, v := range all {
		if v.Status == "EXCLUDED" {
			fmt.Fprintf(&out, "- %s, %s: %s\n", v.Client, v.Behaviour, v.Detail)
		}
	}
	return out.String()
}

// clientNames are the libraries, then the agents.
func clientNames() (names []string) {
	for _, l := range libraries {
		names = append(names, l.name)
	}
	return append(names, "claude", "codex", "opencode", "qwen", "cline")
}

// buildName is the version of bin/fareway, with the revision it was built from where it knows it, and its digest: a
// build between versions has only that.
func buildName() string {
	b, err := os.ReadFile("../../bin/fareway")
	if err != nil {
		return "unknown"
	}
	info, err := buildinfo.Read(bytes.NewReader(b))
	if err != nil {
		return "unknown"
	}
	name := "fareway " + cmp.Or(info.Main.Version, "unknown")
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && !strings.Contains(name, s.Value[:min(12, len(s.Value))]) {
			name += " " + s.Value
		}
	}
	return fmt.Sprintf("%s sha256:%.6x", name, sha256.Sum256(b))
}

// versionOf is the version that is installed.
func versionOf(client string) string {
	for _, set := range []string{"node", "agents"} {
		b, err := os.ReadFile(filepath.Join("../../.cache/clients", set, "node_modules", packages[client], "package.json"))
		var v struct{ Version string }
		if err == nil && json.Unmarshal(b, &v) == nil {
			return v.Version
		}
	}
	mod, _ := os.ReadFile("../../go.mod")
	if m := regexp.MustCompile(regexp.QuoteMeta(packages[client]) + ` v(\S+)`).FindSubmatch(mod); m != nil {
		return string(m[1])
	}
	return "unknown"
}
