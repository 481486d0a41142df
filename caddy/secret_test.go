//go:build linux

package main_test

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestSecrets looks for keys and prompts in everything that a gateway writes, at the most talkative log level, with
// Caddy's own record of its configuration, after good requests and bad ones.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const (
		prompted    = "marker-prompt-7b1e"
		answered    = "marker-answer-c44d"
		upstreamKey = "marker-upstream-key-90aa"
		host        = "marker-host-41f7"
		wrongKey    = "fwk_markerwrongkey5521xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		ownID       = "marker-request-id-3d0f"
	)
	up := upstream.Start(t, upstream.Options{APIKey: upstreamKey, Script: func(req *upstream.Request) upstream.Reply {
		switch said := req.LastUser(); {
		case strings.Contains(said, "refuse"): // services repeat prompts and keys in their errors
			return upstream.Refuse(upstream.BadRequest("cannot parse: "+said+" "+upstreamKey, "messages"))
		case strings.Contains(said, "fail"):
			return upstream.Reply{Steps: []upstream.Step{upstream.Text(answered), upstream.Fail(upstream.Error{
				Status: 500, Message: "failed on " + said, Type: "server_error"})}}
		case strings.Contains(said, "cut"):
			return upstream.Reply{Steps: []upstream.Step{upstream.Text(answered), upstream.Raw("data: {" + said),
				upstream.Cut()}}
		}
		return upstream.Say(answered)
	}})
	config := strings.Replace(hcl(up), "base_url", "api_key  = file(\"upstream.key\")\n    base_url", 1)
	// What cannot be reached is told of with its address, from the first load on.
	config += `
provider "lost" {
  plugin = "openai"
  config {
    base_url = "http://${file("upstream.host")}.invalid:1/v1"
  }
}

route "lost" {
  provider       = "lost"
  model          = "m"
  context_window = 2
  max_output     = 1
  quality        = 0.1
  price {
    input  = 900
    output = 900
  }
}
`
	g := startGateway(t, files{"gateway.hcl": config, "upstream.key": upstreamKey, "upstream.host": host, "Caddyfile": `{
	debug
	fareway {
		config "{$FAREWAY_DATA}/gateway.hcl"
		data "{$FAREWAY_DATA}"
	}
	admin "{$FAREWAY_ADMIN}"
	grace_period 6m
	auto_https off
	log everything {
		output file "{$FAREWAY_DATA}/fareway.log"
		level DEBUG
	}
	log default {
		output stderr
		level DEBUG
	}
	storage file_system "{$FAREWAY_DATA}/caddy"
}

http://:{$FAREWAY_PORT} {
	bind 127.0.0.1
	log
	fareway
}
`})
	key := g.account(t, 1_000_000)
	sent := 0
	for _, s := range shapes {
		for _, prompt := range []string{"", " refuse", " fail", " cut"} {
			for _, stream := range []bool{false, true} {
				req := s.request(t, g.URL, key, prompted+prompt, stream)
				req.Header.Set("X-Request-Id", ownID)
				readAll(t, req)
				sent++
			}
		}
		wrong := s.request(t, g.URL, wrongKey, prompted, false)
		wrong.Header.Set("x-api-key", key)
		readAll(t, wrong)
		broken, err := http.NewRequestWithContext(withTimeout(t), "POST", g.URL+s.path+"?"+prompted,
			strings.NewReader(`{"model": "`+prompted))
		require.NoError(t, err)
		broken.Header.Set("x-api-key", key)
		broken.Header.Set("Authorization", "Bearer "+key)
		readAll(t, broken)
		elsewhere, err := http.NewRequestWithContext(withTimeout(t), "GET", g.URL+s.path+"/"+prompted, nil)
		require.NoError(t, err)
		elsewhere.Header.Set("x-api-key", key)
		readAll(t, elsewhere)
	}
	require.NoError(t, up.Idle(withTimeout(t)))
	require.GreaterOrEqual(t, len(up.Records()), sent)
	g.settled(t)
	g.terminate(t)
	<-g.ended
	require.NoError(t, g.err)

	written := map[string][]byte{"stdout": []byte(g.stdout.String()), "stderr": []byte(g.stderr.String())}
	require.NoError(t, filepath.WalkDir(g.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		written[strings.TrimPrefix(path, g.Dir+"/")] = b
		return err
	}))
	delete(written, "upstream.key") // ours
	delete(written, "upstream.host")
	require.Contains(t, string(written["fareway.log"]), "[redacted].invalid")
	require.Contains(t, written, "home/.config/caddy/autosave.json")
	require.Contains(t, written, "fareway.db")
	require.Contains(t, string(written["fareway.log"]), `"level":"debug"`)
	require.Contains(t, string(written["fareway.log"]), `"endpoint":"messages","status":502`)
	for name, content := range written {
		secrets := map[string]string{"a prompt": prompted, "a reply": answered, "the upstream's key": upstreamKey,
			"the upstream's host": host,
			"a key":               key, "a wrong key": wrongKey, "the client's own request id": ownID}
		if name != "trial.key" {
			secrets["the trial key"] = g.Key
		}
		for what, secret := range secrets {
			if i := bytes.Index(content, []byte(secret)); i >= 0 {
				t.Errorf("%s is in %s: %q", what, name, content[max(0, i-300):min(len(content), i+100)])
			}
		}
	}
}

// readAll does a request for what it leaves behind; how it ends is other tests' business.
func readAll(t testing.TB, req *http.Request) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	_, _ = bytes.NewBuffer(nil).ReadFrom(resp.Body)
}
