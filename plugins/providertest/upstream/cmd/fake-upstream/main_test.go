package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestMain lets the test binary stand for the command.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_FAKE_UPSTREAM") == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

// command is the command with these arguments; it dies with the test.
func command(t *testing.T, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "RUN_FAKE_UPSTREAM=1")
	return cmd
}

func TestServesAScriptAndWritesALog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script, log := filepath.Join(dir, "script.json"), filepath.Join(dir, "served.jsonl")
	require.NoError(t, os.WriteFile(script, []byte(`{"default": {"steps": [{"do": "text", "text": "scripted"},
		{"do": "finish", "text": "stop"}, {"do": "usage"}, {"do": "done"}]}}`), 0o600))
	cmd := command(t, "--script", script, "--log", log)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	url, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	url = strings.TrimSpace(url)

	resp, err := http.Post(url+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"x"}]}`))
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(body), "scripted")
	idle, err := http.Get(url + "/_fake/idle")
	require.NoError(t, err)
	require.NoError(t, idle.Body.Close())

	written, err := os.ReadFile(log)
	require.NoError(t, err, "the line is on the disk before the process ends")
	var rec upstream.Record
	require.NoError(t, json.Unmarshal(written, &rec))
	require.Equal(t, upstream.OutcomeWhole, rec.Outcome)
	require.EqualValues(t, 1, rec.Reported.Completion)

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}

func TestBadArgumentsAreReported(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "bad.json")
	require.NoError(t, os.WriteFile(bad, []byte(`{"queue": [{"steps": [{"do": "sing"}]}]}`), 0o600))
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no such script":  {[]string{"--script", bad + "x"}, "reading the script"},
		"bad script":      {[]string{"--script", bad}, `there is no step "sing"`},
		"bad address":     {[]string{"--listen", "nowhere"}, "listening as the fake upstream"},
		"log is a folder": {[]string{"--log", filepath.Dir(bad)}, "opening the log"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := command(t, c.args...).CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, 1, exit.ExitCode())
			require.Contains(t, string(out), c.want)
		})
	}
}
