//go:build clients && linux

package clients_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// These are the behaviours of the agents beside tools, each in the first shape that the agent speaks.

// said is what the upstream answers where the answer does not matter.
func said(*upstream.Request) upstream.Reply { return upstream.Say("Hello. END more") }

// agentNamed is one of the agents.
func agentNamed(t testing.TB, name string) agent {
	t.Helper()
	all := agents(t)
	i := slices.IndexFunc(all, func(a agent) bool { return a.name == name })
	require.NotEqual(t, -1, i, name)
	return all[i]
}

// A conversation of 900,000 characters, 20,000 sentences, arrives whole and is answered.
func TestAgentsLongContext(t *testing.T) {
	t.Parallel()
	const sentence = "The quick brown fox jumps over the lazy dog. "
	for _, a := range agents(t) {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			defer agentSlot()()
			shows(t, a.name, "long context")
			g := startGateway(t, said)
			home := folder(t)
			g.connect(t, home, a.name, a.families[0], nil)
			_, out, end := a.start(t, home, folder(t), strings.Repeat(sentence, 20_000), a.command(a.families[0])...)
			require.NoError(t, end(), "%s", out)
			require.Contains(t, out.String(), "Hello.")
			most := 0
			for _, r := range g.Upstream.Records() {
				require.Equal(t, upstream.OutcomeWhole, r.Outcome)
				most = max(most, strings.Count(string(r.Body), strings.TrimSpace(sentence)))
			}
			require.Equal(t, 20_000, most)
		})
	}
}

// Where an agent can be told to send stop sequences, they end the reply, and are not in it.
func TestAgentsStop(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		env    string
		change func(string) string
	}{
		"claude":   {`CLAUDE_CODE_EXTRA_BODY={"stop_sequences":["END"]}`, nil},
		"opencode": {"", with([]string{"END"}, "provider", "fareway", "models", "service/auto", "options", "stop")},
		"qwen":     {"", with([]string{"END"}, "model", "generationConfig", "samplingParams", "stop")},
	} {
		t.Run(name+" STOP-07", func(t *testing.T) {
			t.Parallel()
			defer agentSlot()()
			shows(t, name, "stop")
			a := agentNamed(t, name)
			g := startGateway(t, said)
			home := folder(t)
			g.connect(t, home, name, a.families[0], tt.change)
			a.env = append(a.env, tt.env)
			out, err := a.run(t, home, folder(t), a.command(a.families[0])...)
			require.NoError(t, err, out)
			require.Contains(t, out, "Hello.")
			require.NotContains(t, out, "END")
			require.NotContains(t, out, "more\n")
			asked := 0
			for _, s := range g.Wire.Seen() {
				if s.family() != "" && len(s.Tools) > 0 {
					asked++
					require.Equal(t, 200, s.Status)
					require.Equal(t, []string{"END"}, s.Stop)
				}
			}
			require.Positive(t, asked)
		})
	}
}

// with puts a value into settings that are JSON.
func with(value any, path ...string) func(string) string {
	return func(settings string) string {
		var object map[string]any
		if err := json.Unmarshal([]byte(settings), &object); err != nil {
			panic(err)
		}
		at := object
		for _, name := range path[:len(path)-1] {
			inner, ok := at[name].(map[string]any)
			if !ok {
				inner = map[string]any{}
				at[name] = inner
			}
			at = inner
		}
		at[path[len(path)-1]] = value
		b, _ := json.Marshal(object) // as it was read
		return string(b)
	}
}

// Claude Code counts tokens for its overview of the context.
func TestClaudeCounts(t *testing.T) {
	t.Parallel()
	defer agentSlot()()
	shows(t, "claude", "count")
	a, g, home := agentNamed(t, "claude"), startGateway(t, said), folder(t)
	g.connect(t, home, a.name, "messages", nil)
	out, err := a.run(t, home, folder(t), a.command("messages")[0], "-p", "/context")
	require.NoError(t, err, out)
	require.Contains(t, out, "Context Usage")
	require.Contains(t, out, "| System prompt |")
	counted := 0
	for _, s := range g.Wire.Seen() {
		require.Empty(t, s.family(), "%+v", s)
		if s.Path == "/v1/messages/count_tokens" {
			require.Equal(t, 200, s.Status, "%+v", s)
			counted++
		}
	}
	require.Positive(t, counted)
}

// Claude Code lists the models where it is told to; it offers only those that are called as its own.
func TestClaudeListsModels(t *testing.T) {
	t.Parallel()
	defer agentSlot()()
	shows(t, "claude", "models")
	a, g, home := agentNamed(t, "claude"), startGateway(t, said), folder(t)
	g.connect(t, home, a.name, "messages", nil)
	a.env = append(a.env, "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY=1")
	log := filepath.Join(home, "debug.log")
	out, err := a.run(t, home, folder(t), a.command("messages")[0], "-p", "--debug-file", log, task)
	require.NoError(t, err, out)
	listed := slices.IndexFunc(g.Wire.Seen(), func(s seen) bool { return s.Method == "GET" && s.Path == "/v1/models" })
	require.NotEqual(t, -1, listed, "%+v", g.Wire.Seen())
	require.Equal(t, 200, g.Wire.Seen()[listed].Status)
	b, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Contains(t, string(b), "[gatewayDiscovery] 0 usable models after filter", "it has read the list")
}

// Claude Code repeats a request without streaming when a stream has failed, and shows the whole reply.
func TestClaudeAfterAFailedStream(t *testing.T) {
	t.Parallel()
	defer agentSlot()()
	a, home := agentNamed(t, "claude"), folder(t)
	shows(t, a.name, "not streamed")
	g := startGateway(t, said)
	g.Upstream.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("Half of "), upstream.Cut()}})
	g.connect(t, home, a.name, "messages", nil)
	out, err := a.run(t, home, folder(t), a.command("messages")...)
	require.NoError(t, err, out)
	require.Contains(t, out, "Hello. END more")
	require.NotContains(t, out, "Half of")
	all := g.Wire.Seen()
	last := all[len(all)-1]
	require.Equal(t, "messages", last.family())
	require.Equal(t, 200, last.Status)
	require.False(t, last.Streamed)
}

// Model names of other services that an agent is set to are accepted.
func TestAgentsModelNames(t *testing.T) {
	t.Parallel()
	for name, model := range map[string]string{"codex": "gpt-5-codex", "opencode": "claude-opus-5-5"} {
		t.Run(name+" MODEL-11", func(t *testing.T) {
			t.Parallel()
			defer agentSlot()()
			shows(t, name, "model ids")
			a, g, home := agentNamed(t, name), startGateway(t, said), folder(t)
			instead := func(s string) string { return strings.ReplaceAll(s, "service/auto", model) }
			g.connect(t, home, name, a.families[0], instead)
			command := a.command(a.families[0])
			for i := range command {
				command[i] = instead(command[i])
			}
			out, err := a.run(t, home, folder(t), command...)
			require.NoError(t, err, out)
			require.Contains(t, out, "Hello.")
			for _, s := range g.Wire.Seen() {
				if s.family() != "" {
					require.Equal(t, model, s.Model)
					require.Equal(t, 200, s.Status, "%+v", s)
				}
			}
		})
	}
}

// Ctrl-C ends an agent and its request (OpenCode does not heed it without a terminal). The gateway reads the rest of
// the reply, and charges it.
func TestAgentsCancelled(t *testing.T) {
	t.Parallel()
	for _, a := range agents(t) {
		t.Run(a.name+" GAP-47", func(t *testing.T) {
			t.Parallel()
			defer agentSlot()()
			shows(t, a.name, "cancellation")
			g := startGateway(t, func(*upstream.Request) upstream.Reply { return slowly("go") })
			home := folder(t)
			g.connect(t, home, a.name, a.families[0], nil)
			cmd, out, end := a.start(t, home, folder(t), "", a.command(a.families[0])...)
			g.Wire.streams(t, func(s seen) bool { return len(s.Tools) > 0 })
			signal := syscall.SIGINT
			if a.name == "opencode" {
				signal = syscall.SIGTERM
			}
			require.NoError(t, syscall.Kill(-cmd.Process.Pid, signal))
			_ = end() // with an error or not, as each likes
			require.NotEqual(t, syscall.SIGKILL, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(), "%s", out)
			g.readOn(t, g.Wire, "go")
		})
	}
}

// slowly begins a reply, and goes on when the gate opens, for a second: until the gateway knows that nobody reads it.
func slowly(gate string) upstream.Reply {
	return upstream.Reply{Steps: []upstream.Step{upstream.Text("Hello."), upstream.Wait(gate),
		{Do: upstream.StepText, Text: " more", Times: 100, Every: upstream.Duration(10 * time.Millisecond)},
		upstream.Finish("stop"), upstream.ReportUsage(), upstream.Done()}}
}

// streams waits for the first text of a request.
func (w *wire) streams(t testing.TB, which func(seen) bool) {
	t.Helper()
	late := time.After(clientTime)
	for {
		select {
		case s := <-w.Streaming:
			if which(s) {
				return
			}
		case <-late:
			require.Fail(t, "nothing has been shown", "%+v", w.Seen())
		}
	}
}

// readOn judges what has come of a stream whose client has left while the upstream waited at a gate.
func (g *gateway) readOn(t testing.TB, w *wire, gate string) {
	t.Helper()
	var left []seen
	for _, s := range w.Seen() {
		if s.Left && s.Status == 200 && s.family() != "" {
			left = append(left, s)
		}
	}
	require.NotEmpty(t, left, "%+v", w.Seen())
	g.Upstream.Open(gate)
	for _, s := range left {
		line := g.logged(t, s.ID)
		require.Equal(t, "client_left", line.Reason, "%+v", line)
		require.Positive(t, line.Microcents, "%+v", line)
		require.False(t, line.Pending, "%+v", line)
	}
	for _, r := range g.Upstream.Records() {
		require.Equal(t, upstream.OutcomeWhole, r.Outcome, "it was read to its end")
	}
}

// written is all that an agent has written below its home.
func written(home string) string {
	var all strings.Builder
	_ = filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			b, _ := os.ReadFile(path) // its daemon may have removed it
			all.Write(b)
		}
		return nil
	})
	return all.String()
}
