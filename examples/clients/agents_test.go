//go:build clients && linux

package clients_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

const (
	task    = "Write a greeting into hello.txt."
	content = "hello from the gateway\n"
	report  = "The greeting is written."
)

// agent is a coding agent.
type agent struct {
	name     string // as `fareway gateway connect` knows it
	families []string
	// command runs it headless in the work folder, once it has been connected.
	command func(family string) []string
	env     []string
	// tools are the agent's own that write files, of which it offers one, and the arguments with which it writes
	// content into a file.
	tools map[string]func(file string) map[string]any
	// unnamed are the families in which it works without a model in its settings.
	unnamed []string
}

func program(t testing.TB, path string) string {
	return filepath.Join(root(t), ".cache/clients/agents/node_modules", path)
}

func agents(t testing.TB) []agent {
	type arguments = map[string]any
	type tools = map[string]func(string) arguments
	write := func(path, text string) func(string) arguments {
		return func(file string) arguments { return arguments{path: file, text: content} }
	}
	return []agent{
		{
			name: "claude", families: []string{"messages"}, unnamed: []string{"messages"},
			tools: tools{"Write": write("file_path", "content")},
			command: func(string) []string {
				return []string{program(t, "@anthropic-ai/claude-code-linux-x64/claude"), "-p", "--permission-mode", "acceptEdits",
					task}
			},
		},
		{
			name: "codex", families: []string{"responses"}, tools: tools{"exec_command": func(file string) arguments {
				return arguments{"cmd": fmt.Sprintf("printf '%s\n' >%s", strings.TrimSpace(content), file)}
			}},
			command: func(string) []string {
				// Its own sandbox is off: it cannot be set up within another one.
				return []string{program(t, "@openai/codex/vendor/x86_64-unknown-linux-musl/bin/codex"), "exec", "--profile",
					"fareway",
					"--skip-git-repo-check", "--sandbox", "danger-full-access", task}
			},
		},
		{
			name: "opencode", families: []string{"chat", "responses", "messages"},
			tools: tools{"write": write("filePath", "content")},
			command: func(string) []string {
				return []string{program(t, "opencode-linux-x64-baseline/bin/opencode"), "run", "--auto", "--model",
					"fareway/service/auto", task}
			},
			// It would wait for what it cannot reach.
			env: []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1"},
		},
		{
			name: "qwen", families: []string{"chat", "messages"}, unnamed: []string{"chat", "messages"},
			tools: tools{"write_file": write("file_path", "content")},
			command: func(string) []string {
				return []string{node(t), program(t, "@qwen-code/qwen-code/cli.js"), "--approval-mode", "yolo", task}
			},
		},
		{
			name: "cline", families: []string{"chat", "messages"}, unnamed: []string{"chat", "messages"}, tools: tools{
				"editor": write("path", "new_text"),
				"apply_patch": func(file string) arguments { // for models of OpenAI's
					return arguments{"input": fmt.Sprintf("*** Begin Patch\n*** Add File: %s\n+%s*** End Patch\n", filepath.Base(file),
						content)}
				},
			},
			command: func(string) []string { return []string{program(t, "@cline/cli-linux-x64/bin/cline"), task} },
		},
	}
}

func TestAgents(t *testing.T) {
	t.Parallel()
	for _, a := range agents(t) {
		for _, family := range a.families {
			t.Run(a.name+" "+family+" "+clauses[family]+" writes a file", func(t *testing.T) {
				t.Parallel()
				defer agentSlot()()
				shows(t, a.name, "tools", "tool results")
				r := a.write(t, family, nil)
				sawOnWire(a.name, r.seen)
				for _, s := range r.seen {
					if s.family() == "" {
						continue
					}
					require.Equal(t, "service/auto", s.Model)
					require.False(t, s.Billed, "a line that changes with every request")
					switch a.name {
					case "codex":
						require.Zero(t, s.MaxTokens, "it has a setting now: use it in `connect codex`")
					case "cline": // it has no setting either, and asks for 32,000
					default:
						require.Positive(t, s.MaxTokens)
						require.LessOrEqual(t, s.MaxTokens, int64(16_384))
					}
				}
			})
		}
	}
}

// A client whose settings lie elsewhere is connected there.
func TestAgentsMovedSettings(t *testing.T) {
	t.Parallel()
	for _, moved := range []struct{ client, variable, place string }{
		{"claude", "CLAUDE_CONFIG_DIR", "mine"}, {"codex", "CODEX_HOME", "mine"}, {"opencode", "XDG_CONFIG_HOME", "mine"},
		{"qwen", "QWEN_HOME", "mine"}, {"qwen", "QWEN_HOME", "~/mine"}, {"cline", "CLINE_DIR", "mine"},
		{"cline", "CLINE_DATA_DIR", "mine"}, {"cline", "CLINE_PROVIDER_SETTINGS_PATH", "mine.json"},
	} {
		t.Run(moved.client+" "+moved.variable+" "+moved.place, func(t *testing.T) {
			t.Parallel()
			defer agentSlot()()
			g := startGateway(t, func(*upstream.Request) upstream.Reply { return upstream.Say(report) })
			a, home := agentNamed(t, moved.client), folder(t)
			place := moved.place
			if !strings.HasPrefix(place, "~") {
				place = filepath.Join(home, place)
			}
			require.NoError(t, os.MkdirAll(filepath.Join(home, "mine"), 0o700)) // Codex wants it to be there
			a.env = append(a.env, moved.variable+"="+place)
			cmd := exec.CommandContext(t.Context(), filepath.Join(root(t), "bin/fareway"), "gateway", "connect", a.name,
				"--family", a.families[0], "--url", g.URL, "--data", g.Data, "--write")
			cmd.Env = append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, a.env...)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "Written: "+filepath.Join(home, "mine"))
			text, err := a.run(t, home, folder(t), a.command(a.families[0])...)
			require.NoError(t, err, text)
			require.Contains(t, text, report)
		})
	}
}

// Without a model in its settings, an agent sends a name of its own.
func TestAgentsOwnModelNames(t *testing.T) {
	t.Parallel()
	for _, a := range agents(t) {
		for _, family := range a.unnamed {
			t.Run(a.name+" "+family+" MODEL-11 with its own model name", func(t *testing.T) {
				t.Parallel()
				defer agentSlot()()
				shows(t, a.name, "model ids")
				r := a.write(t, family, withoutModel)
				known := knownNames(t)
				for _, s := range r.seen {
					if s.Model != "" {
						require.Contains(t, known, s.Model, "add it to testdata/names.txt")
					}
				}
			})
		}
	}
}

// What README.md says does not work is refused with words that the agent shows, and asked for once only.
func TestAgentsHostedTools(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		agent, connect string
		change         func(string) string
	}{
		"codex GAP-102 with a model of its own catalog": {"codex", "responses", withoutModel},
		"cline with its OpenAI provider": {"cline", "chat", func(settings string) string {
			return strings.ReplaceAll(settings, "openai-compatible", "openai-native")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer agentSlot()()
			all := agents(t)
			a := all[slices.IndexFunc(all, func(a agent) bool { return a.name == c.agent })]
			g := startGateway(t, upstream.Answer)
			home, work := folder(t), folder(t)
			g.connect(t, home, a.name, c.connect, c.change)
			out, err := a.run(t, home, work, a.command("responses")...)
			require.Error(t, err, out)
			require.Contains(t, out, "hosted and other tools are not supported")
			generated := 0
			for _, s := range g.Wire.Seen() {
				if s.family() != "" {
					generated++
					require.Equal(t, 400, s.Status, "%+v", s)
					require.Contains(t, append(knownNames(t), "service/auto"), s.Model)
				}
			}
			require.Equal(t, 1, generated)
		})
	}
}

// result is what an agent's run has shown.
type result struct {
	out  string
	seen []seen
}

// write has an agent write the file and judges what it did. change changes its settings file after it has been
// connected; nil for no change.
func (a agent) write(t *testing.T, family string, change func(string) string) result {
	t.Helper()
	var calls atomic.Int64
	home, work := folder(t), folder(t)
	file := filepath.Join(work, "hello.txt")
	g := startGateway(t, a.script(t, file, &calls))
	g.connect(t, home, a.name, family, change)
	out, err := a.run(t, home, work, a.command(family)...)
	r := result{out, g.Wire.Seen()}
	require.NoError(t, err, "%s\n%+v", out, r.seen)
	b, err := os.ReadFile(file)
	require.NoError(t, err, "%s\n%+v", out, r.seen)
	require.Equal(t, content, strings.TrimSpace(string(b))+"\n")
	require.Contains(t, out, report)
	generated := 0
	for _, s := range r.seen {
		require.Less(t, s.Status, 400, "%+v", s)
		if s.family() != "" {
			generated++
			require.Equal(t, family, s.family(), "%+v", s)
		}
	}
	require.GreaterOrEqual(t, generated, 2, "the call, and its result")
	return r
}

// script calls the agent's tool once where it is offered, and ends when the result has come. Agents also ask for
// titles and the like, without tools.
func (a agent) script(t testing.TB, file string, calls *atomic.Int64) func(*upstream.Request) upstream.Reply {
	arguments := map[string]string{}
	for name, of := range a.tools {
		b, err := json.Marshal(of(file))
		require.NoError(t, err)
		arguments[name] = string(b)
	}
	return func(req *upstream.Request) upstream.Reply {
		if req.Messages[len(req.Messages)-1].Role == "tool" {
			return upstream.Say(report)
		}
		for _, tool := range req.Tools {
			if arguments[tool.Name] != "" && calls.Add(1) == 1 {
				return upstream.Call("call_write", tool.Name, arguments[tool.Name])
			}
		}
		return upstream.Say("A greeting")
	}
}

// folder is a new one that goes with the whole suite: an agent's daemon may go on writing to it.
func folder(t testing.TB) string {
	t.Helper()
	path, err := os.MkdirTemp("", "agent") //nolint:usetesting // t.TempDir would be removed with the test
	require.NoError(t, err)
	return path
}

// connect sets the client up with `fareway gateway connect`, as a person would, and then changes what it wrote.
func (g *gateway) connect(t testing.TB, home, client, family string, change func(string) string) {
	t.Helper()
	out := g.fareway(t, "connect", client, "--family", family, "--url", g.URL, "--home", home, "--write", "--json")
	if change == nil {
		return
	}
	var v struct{ File struct{ Path string } }
	require.NoError(t, json.Unmarshal([]byte(out), &v), "%s", out)
	b, err := os.ReadFile(v.File.Path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(v.File.Path, []byte(change(string(b))), 0o600))
}

// withoutModel takes what names the model out of settings.
func withoutModel(settings string) string {
	var object map[string]any
	if json.Unmarshal([]byte(settings), &object) == nil {
		dropModel(object)
		b, _ := json.Marshal(object) // as it was read
		return string(b)
	}
	return strings.Join(slices.DeleteFunc(strings.SplitAfter(settings, "\n"), func(line string) bool {
		return strings.Contains(line, "service/auto")
	}), "")
}

func dropModel(object map[string]any) {
	for name, value := range object {
		if inner, ok := value.(map[string]any); ok {
			dropModel(inner)
		} else if value == "service/auto" {
			delete(object, name)
		}
	}
}

// run runs the agent in a home of its own and returns all that it printed.
func (a agent) run(t testing.TB, home, work string, command ...string) (string, error) {
	t.Helper()
	_, out, end := a.start(t, home, work, "", command...)
	err := end()
	return out.String(), err
}

// start starts the agent with a text on its standard input. end waits for its end, and out has then all that it
// printed.
func (a agent) start(
	t testing.TB, home, work, input string, command ...string,
) (cmd *exec.Cmd, out *bytes.Buffer, end func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTime)
	cmd, out = exec.CommandContext(ctx, command[0], command[1:]...), new(bytes.Buffer)
	cmd.Dir = work
	cmd.Env = append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=dumb", "NO_COLOR=1", "LANG=C.UTF-8"},
		a.env...)
	if input != "" {
		cmd.Stdin = strings.NewReader(input)
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	require.NoError(t, cmd.Start())
	return cmd, out, func() error {
		defer cancel()
		err := cmd.Wait()
		if errors.Is(err, exec.ErrWaitDelay) {
			err = nil // it has ended well, and a daemon of its own holds the output
		}
		return err
	}
}

// agentSlots lets few agents run at a time: each takes a core and half a gigabyte.
var agentSlots = make(chan struct{}, 3)

func agentSlot() (done func()) {
	agentSlots <- struct{}{}
	return func() { <-agentSlots }
}
