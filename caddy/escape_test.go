//go:build linux

package main_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// planted names a window, clears the screen, colors (by a control character of one code point, too), turns text
// around, and begins a line.
const planted = "x\x1b]0;pwned\x07\x1b[2J\u009b31m\u202e\r\n{\"level\":\"error\",\"msg\":\"forged\"}\n# forged"

// plantedHeader is of it what a header can carry.
const plantedHeader = "x\u009b31m\u202e"

// pasted is of it what stands in one line: how many lines an operator's own argument has is theirs.
const pasted = "x\x1b]0;pwned\x07\x1b[2J\u009b31m\u202e"

// runsWith has for each command what it is run with, where KEY, REQUEST, REFUSED, NEW and OUT stand for a key's id, a
// request's, a refused one's, a changed configuration and a path where nothing is yet. A command that fails prints as
// well. Commands that are not here fail the test, as do those that are not there.
var runsWith = map[string][]string{
	"account activate": {"acme"}, "account create": {pasted}, "account deactivate": {"other"}, "account list": {},
	"account plans":  {},
	"account rename": {"acme", pasted}, "account set-limit": {"acme", "spend-cap", pasted},
	"account set-own-cap": {"acme", pasted},
	"account set-mail":    {"acme", pasted}, "account set-plan": {"acme", pasted}, "account set-profile": {"acme", pasted},
	"account set-requires": {"acme", "--region", pasted}, "account set-top-up": {"acme", "--off"},
	"account show": {"acme"}, "account suspend": {"other"},
	"alert list": {}, "apply": {"NEW"}, "backup run": {"--into", "OUT"}, "backup test": {"OUT"},
	"check": {"NEW"}, "connect": {"aider"}, "credit add": {"--account", "acme", "5", "--reference", pasted},
	"credit adjust": {"--account", "acme", "--credits", "-1", "--reason", pasted},
	"credit refund": {"REQUEST", "--reason", pasted}, "diff": {"1", pasted}, "doctor": {"--all"},
	"explain": {"REQUEST"}, "fmt": {"NEW", "--check"}, "history": {}, "hook test": {},
	"init":       {"--service", pasted, "--file", "OUT"},
	"key create": {"--account", "acme", "--name", pasted}, "key list": {}, "key rename": {"KEY", pasted},
	"key revoke": {pasted}, "key rotate": {pasted}, "key set": {"KEY", "--expires", pasted},
	"ledger accept-loss": {"--reason", pasted}, "ledger audit": {}, "ledger checkpoint": {}, "ledger export": {},
	"ledger move": {"--to", pasted}, "ledger prune": {"--before", pasted},
	"ledger spool apply": {pasted, "--reason", pasted}, "ledger spool discard": {pasted, "--reason", pasted},
	"ledger spool list": {}, "ledger verify": {}, "models": {"up"}, "nodes": {},
	"payment check": {pasted}, "payment close": {pasted, "--reason", pasted}, "payment list": {}, "plan": {"NEW"},
	"plugin info": {"bad"}, "plugin list": {}, "plugin new": {pasted}, "plugin proto": {},
	"plugin test": {"plugins/fareway-provider-bad"}, "portal disable": {"ann@example.test"},
	"portal enable": {"ann@example.test"}, "portal first": {}, "portal invitations": {}, "portal invite": {pasted},
	"portal people": {}, "portal reset": {"ann@example.test"}, "portal revoke": {"nobody" + pasted},
	"portal role": {pasted}, "portal sessions": {"ann@example.test"}, "portal withdraw": {pasted},
	"restore": {pasted}, "rollback": {pasted}, "route calibrate": {"--recorded", pasted, "--out", "OUT"},
	"route eval": {"--recorded", pasted}, "route feedback": {"REQUEST", "good", "--reason", pasted}, "route show": {},
	"route train": {"--recorded", pasted, "--out", "OUT"}, "schema": {}, "status": {},
	"statement": {"acme", pasted}, "support-bundle": {"REQUEST", "--list"},
	"top": {"--once"}, "up": {pasted}, "upgrade": {pasted},
	"usage": {"REQUEST"}, "verify": {"--base-url", "http://127.0.0.1:1/" + pasted, "--key", pasted},
}

// more are further ways of commands that have more than one.
var more = [][]string{
	{"statement", "acme", time.Now().UTC().Format("2006-01")},
	{"usage"}, {"usage", "--by", "key", "--csv"}, {"usage", "REFUSED"}, {"usage", "--json"},
	{"usage", "--focus", "--since", "2020-01-01"},
	{"usage", "REQUEST", "--json"},
	{"status", "--json"}, {"models", "up", pasted}, {"plugin", "list", "--json"}, {"plugin", "info", "bad", "--json"},
	{"explain", "REQUEST", "--json"}, {"explain", "REFUSED"}, {"ledger", "audit", "--json"}, {"alert", "list", "--json"},
	{"portal", "sessions", "ann@example.test", "--json"}, {"portal", "people", "--json"}, {"history", "--json"},
	{"route", "show", "--json"}, {pasted}, {"account", pasted}, {"account", "show", pasted}, {"usage", pasted},
	{"explain", "OUT" + pasted}, {"top", "--once", "--json"}, {"doctor", "--json"}, {"doctor", pasted},
	{"models", "up", "--json"}, {"connect", pasted}, {"apply", "OUT" + pasted},
}

// TestNothingIsPrintedRaw: what anyone can send is in no terminal, log or metric as it was sent. It plants control
// characters wherever clients, upstreams, plugins and browsers can put text, and looks at what every command prints, at
// the log and at the metrics.
func TestNothingIsPrintedRaw(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Models: []string{"standard", planted}, Script: func(
		req *upstream.Request) upstream.Reply {
		switch text := req.LastUser(); {
		case strings.Contains(text, "refuse"):
			return upstream.Refuse(upstream.BadRequest(planted, planted))
		case strings.Contains(text, "break"):
			broken := upstream.ServerError()
			broken.Message, broken.Code, broken.Type = planted, planted, planted
			return upstream.Refuse(broken)
		}
		reply := upstream.Call(planted, planted, `{"a":"`+"\u009b"+`"}`)
		reply.Model = planted
		return reply
	}})
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Planted", plantedHeader)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, planted) // the gateway may have left
	}))
	t.Cleanup(hook.Close)
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "plugins"), 0o700))
	script := "#!/bin/sh\nprintf '%b' 'one \\033]0;pwned\\007\\033[2J\\n" + plantedHeader + "\\n' >&2\nexit 1\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plugins", "fareway-provider-bad"), []byte(script), 0o755))
	config := "gateway {\n  plugin_dir = \"plugins\"\n  max_body = \"64KiB\"\n}\nportal {}\n" +
		"alerts {\n  webhook \"ops\" {\n" +
		"    url    = \"" + hook.URL + "\"\n    secret = file(\"hook.key\")\n  }\n}\n" + hcl(up)
	files{"hook.key": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "gateway.hcl": config, "new.hcl": config + `
provider "bad" {
  plugin = "bad"
}
`}.write(t, dir)
	g := runGateway(t, dir)

	// What an operator gets by mail or from an invoice, and pastes.
	g.call(t, "POST", "/fareway/accounts", map[string]any{"name": "acme", "plan": "trial"}, nil)
	g.call(t, "POST", "/fareway/accounts", map[string]any{"name": "other", "plan": "trial"}, nil)
	g.post("/fareway/credits", map[string]any{"account": "acme", "credits": 1000, "reference": planted, "reason": planted})
	g.call(t, "POST", "/fareway/credits", map[string]any{"account": "acme", "credits": 1000}, nil)
	g.post("/fareway/credits", map[string]any{"account": "acme", "credits": 2, "reference": plantedHeader,
		"reason": planted})
	var key struct{ ID, Key string }
	g.call(t, "POST", "/fareway/keys", map[string]any{"account": "acme", "name": "laptop"}, &key)

	// What a client sends.
	ask := func(key, text string, stream bool) string {
		body, err := json.Marshal(map[string]any{"model": "service/auto", "stream": stream, "user": planted,
			"metadata":          map[string]string{planted: planted},
			"safety_identifier": planted, "prompt_cache_key": planted, planted: planted,
			"messages": []any{map[string]any{"role": "user", "content": planted + text}},
			"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "f", "description": planted,
				"parameters": map[string]any{"type": "object"}}}}})
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(withTimeout(t), http.MethodPost, g.URL+"/v1/chat/completions",
			bytes.NewReader(body))
		require.NoError(t, err)
		for _, name := range []string{"User-Agent", "X-Request-Id", "X-Service-Profile", "X-Session-Id", "Referer",
			"X-Forwarded-For", "Idempotency-Key", "Traceparent", "X-Stainless-Lang"} {
			req.Header.Set(name, plantedHeader)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		return resp.Header.Get("X-Request-Id")
	}
	request := ask(key.Key, "", false)
	ask(key.Key, "", true)
	ask(key.Key, "break", true)
	refused := ask(key.Key, "refuse", false)
	ask(plantedHeader, "", false)
	resp, err := http.Get(g.URL + "/v1/" + "%1b%5b2J%c2%9b?%1b=%0a")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	g.settled(t)

	// What a browser sends.
	g.signIn(t, "ann@example.test", planted)

	// What a plugin writes: its configuration is refused, and why is kept.
	files{"gateway.hcl": config + "\nprovider \"bad\" {\n  plugin = \"bad\"\n}\n"}.write(t, dir)
	fill := func(args []string) []string {
		list := make([]string, len(args))
		for i, a := range args {
			list[i] = strings.NewReplacer("REQUEST", request, "REFUSED", refused, "KEY", key.ID,
				"NEW", filepath.Join(dir, "new.hcl"), "OUT", filepath.Join(t.TempDir(), "out")).Replace(a)
		}
		return list
	}
	commands := listCommands(dir)
	look := func(t *testing.T, args []string) {
		t.Helper()
		cmd := fareway(g.Dir, append([]string{"gateway"}, fill(args)...)...)
		help := commands[args[0]] + commands[strings.Join(args[:min(len(args), 2)], " ")]
		if strings.Contains(help, "--data DIR") {
			cmd.Args = append(cmd.Args, "--data", g.Dir)
		}
		out, _ := cmd.CombinedOutput() // many of them are to fail, and what they say then is looked at
		requirePrintable(t, strings.Join(args[:min(2, len(args))], " "), out)
	}
	for _, command := range slices.Sorted(maps.Keys(commands)) {
		args, ok := runsWith[command]
		require.True(t, ok, "what should `%s` be run with?", command)
		look(t, append(strings.Fields(command), args...))
	}
	require.Len(t, runsWith, len(commands), "one of them is no command any more")
	for _, args := range more {
		look(t, args)
	}

	log, err := os.ReadFile(filepath.Join(dir, "fareway.log"))
	require.NoError(t, err)
	require.NotEmpty(t, log)
	requirePrintable(t, "the log", log)
	for line := range bytes.Lines(log) {
		require.True(t, json.Valid(line), "%q", line)
	}
	for series := range g.metrics(t) {
		requirePrintable(t, "the metrics", []byte(series))
		require.NotContains(t, series, "pwned", "labels come from the configuration only")
	}
	g.says = "(?s:.*)"
	g.stop(t)
	requirePrintable(t, "stderr", []byte(g.stderr.String()))
}

// post does a request of the admin API that may be refused.
func (g *gateway) post(path string, in any) {
	b, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	resp, err := g.admin.Post("http://localhost"+path, "application/json", bytes.NewReader(b))
	if err == nil {
		_ = resp.Body.Close()
	}
}

// signIn has somebody accept an invitation with a name and a browser's headers of their own.
func (g *gateway) signIn(t *testing.T, email, name string) {
	t.Helper()
	link := regexp.MustCompile(`/portal/invitation/\S+`).FindString(string(g.cli(t, "portal", "invite", email,
		"--account", "acme", "--role", "owner")))
	require.NotEmpty(t, link)
	form := "name=" + url.QueryEscape(name) + "&password=" + url.QueryEscape("a horse that nobody has seen before 7")
	req, err := http.NewRequestWithContext(withTimeout(t), http.MethodPost, g.URL+link, strings.NewReader(form))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	req.Header.Set("User-Agent", plantedHeader)
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusSeeOther, resp.StatusCode, "%s", body)
}

// listCommands are all commands, by what stands behind `fareway gateway`, each with its help.
func listCommands(dir string) map[string]string {
	all := map[string]string{}
	var walk func(path []string)
	walk = func(path []string) {
		help, _ := fareway(dir, append(append([]string{"gateway"}, path...), "--help")...).Output() // it never fails
		_, list, found := strings.Cut(string(help), "\nAvailable Commands:\n")
		if !found {
			all[strings.Join(path, " ")] = string(help)
			return
		}
		list, _, _ = strings.Cut(list, "\n\n")
		for line := range strings.Lines(list) {
			if name := strings.Fields(line)[0]; name != "help" && name != "completion" {
				walk(append(slices.Clone(path), name))
			}
		}
	}
	walk(nil)
	return all
}

// requirePrintable fails where there is anything that a terminal would obey.
func requirePrintable(t *testing.T, where string, text []byte) {
	t.Helper()
	for i, r := range string(text) {
		if r == '\n' || r == '\t' {
			continue
		}
		if r == unicode.ReplacementChar || unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) {
			t.Errorf("%s has %U: %q", where, r, text[max(0, i-120):min(len(text), i+40)])
			return
		}
	}
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("# forged")) || bytes.HasPrefix(line, []byte(`{"level":"error","msg":"forged"`)) {
			t.Errorf("%s has a line that somebody else has written: %q", where, line)
		}
	}
}
