//go:build linux

package main_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestSupportBundleHasNoSecrets plants secrets wherever a gateway may have some, and looks for them in every byte of
// its bundles: while it runs, with a configuration that is refused, and while it does not run.
func TestSupportBundleHasNoSecrets(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{
		"a prompt": "marker-prompt-7b1e", "a reply": "marker-reply-c44d", "a key by env()": "marker-env-key-90aa",
		"a key by file()": "marker-file-key-1177", "a password in a URL": "marker-url-password-22",
		"a comment of the HCL file": "marker-hcl-comment-3c", "a comment of the Caddyfile": "marker-caddy-comment-4d",
		"a header in the Caddyfile": "marker-caddy-header-5e", "a DNS token in the Caddyfile": "marker-dns-token-6f",
		"an account's name": "marker-acme@example.com", "a key's name": "marker-laptop-8a",
		"a reference":         "marker-invoice-9b",
		"a key in the log":    "fwk_markerlogkey5521xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
		"a prompt in the log": "marker-log-prompt-a1",
		"a header in the log": "marker-log-bearer-b2", "a line of the log that is no JSON": "marker-plain-line-c3",
		"a field of the log that nobody knows": "marker-field-d4", "a password in an error": "marker-error-password-e5",
		"a variable of the shell": "marker-shell-variable-f6", "a webhook's secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"a key that is written out": "marker-written-out-07", "a client's address": "203.0.113.77",
		"a header of a provider":              "marker-provider-header-18",
		"a short header of a provider":        "mrk19",
		"a prompt in other fields of the log": "marker-field-prompt-2a",
		"a prompt that a plugin wrote":        "marker-plugin-prompt-3b",
		"a PEM file":                          "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ",
	}
	up := upstream.Start(t, upstream.Options{Script: func(req *upstream.Request) upstream.Reply {
		if strings.Contains(req.LastUser(), "refuse") {
			return upstream.Refuse(upstream.BadRequest("cannot read: "+req.LastUser(), "messages"))
		}
		if strings.Contains(req.LastUser(), "break") {
			broken := upstream.ServerError()
			broken.Message = "cannot do: " + req.LastUser()
			return upstream.Refuse(broken)
		}
		return upstream.Say(secrets["a reply"])
	}})
	config := "# " + secrets["a comment of the HCL file"] + "\n" + strings.Replace(hcl(up), "base_url",
		`api_key = "${env("SUPPORT_TEST_KEY")}${file("upstream.key")}"`+"\n    headers = { \"X-Title\" = \""+
			secrets["a header of a provider"]+"\", X-Short = \""+secrets["a short header of a provider"]+"\" }\n    base_url", 1)
	g := &gateway{Dir: t.TempDir(), ended: make(chan struct{}),
		Env: []string{"SUPPORT_TEST_KEY=" + secrets["a key by env()"]}}
	files{"gateway.hcl": config, "upstream.key": secrets["a key by file()"], "Caddyfile": fmt.Sprintf(`{
	fareway {
		config gateway.hcl
		data .
	}
	admin "{$FAREWAY_ADMIN}"
	auto_https off
	# %s
	log everything {
		output fareway fareway.log
	}
	log default {
		output stderr
		level ERROR
	}
}

http://:{$FAREWAY_PORT} {
	bind 127.0.0.1
	header X-Internal %s
	respond /dns "%s"
	fareway
}
`, secrets["a comment of the Caddyfile"], secrets["a header in the Caddyfile"],
		secrets["a DNS token in the Caddyfile"])}.
		write(t, g.Dir)
	g.launch(t, "")
	g.awaitStart(t)

	name := secrets["an account's name"]
	g.call(t, "POST", "/fareway/accounts", map[string]any{"name": name, "plan": "trial"}, nil)
	g.call(t, "POST", "/fareway/credits", map[string]any{"account": name, "credits": 1000,
		"reference": secrets["a reference"]}, nil)
	var key struct{ Key string }
	g.call(t, "POST", "/fareway/keys", map[string]any{"account": name, "name": secrets["a key's name"]}, &key)
	secrets["a client's key"], secrets["the trial account's key"] = key.Key, g.Key
	for _, file := range []string{"admin.token", "metrics.token"} {
		content, err := os.ReadFile(filepath.Join(g.Dir, file))
		require.NoError(t, err)
		secrets[file] = strings.TrimSpace(string(content))
	}
	reply := shapes[0].send(t, http.DefaultClient, g.URL, key.Key, secrets["a prompt"], false)
	require.Equal(t, http.StatusOK, reply.StatusCode)
	id := reply.Header.Get("X-Request-Id")
	readAll(t, shapes[0].request(t, g.URL, key.Key, secrets["a prompt"]+" refuse", true))
	readAll(t, shapes[0].request(t, g.URL, key.Key, secrets["a prompt"]+" break", false))
	readAll(t, shapes[0].request(t, g.URL, mistyped(key.Key), secrets["a prompt"], true))
	g.settled(t)
	log, err := os.OpenFile(filepath.Join(g.Dir, "fareway.log"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	line, err := json.Marshal(map[string]any{"level": "error", "msg": "planted", "ts": 1.5, "request_id": id,
		"client_ip": secrets["a client's address"], "account": name, "prompt": secrets["a prompt in the log"],
		"headers": map[string]any{"Authorization": []string{"Bearer " + secrets["a header in the log"]}},
		"new":     secrets["a field of the log that nobody knows"],
		"error": "dialing postgres://u:" + secrets["a password in an error"] + "@db: " + secrets["a key in the log"] +
			" of " + name + " is not " + secrets["a key by env()"] + " and " + secrets["a webhook's secret"],
		"reason": "-----BEGIN PRIVATE KEY-----\n" + secrets["a PEM file"] + "\n-----END PRIVATE KEY-----"})
	require.NoError(t, err)
	other, byPlugin := secrets["a prompt in other fields of the log"], secrets["a prompt that a plugin wrote"]
	for _, fields := range []map[string]any{
		{"level": "info", "msg": "planted", "text": other, "message": other, "name": other, "request_id": id,
			"body": map[string]any{"text": other, "error": other}},
		{"level": "info", "msg": byPlugin, "from": "stderr", "error": byPlugin, "request_id": id},
		{"level": "info", "msg": byPlugin, "from": "plugin", "reason": byPlugin, "model": byPlugin},
	} {
		more, err := json.Marshal(fields)
		require.NoError(t, err)
		_, err = fmt.Fprintf(log, "%s\n", more)
		require.NoError(t, err)
	}
	_, err = fmt.Fprintf(log, "%s\n%s\n", line, secrets["a line of the log that is no JSON"])
	require.NoError(t, err)
	require.NoError(t, log.Close())

	search := func(t *testing.T, env []string, args ...string) map[string]string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "bundle.tar.gz")
		cmd := fareway(g.Dir, append([]string{"gateway", "support-bundle", "--data", g.Dir, "--out", file}, args...)...)
		cmd.Env = append(cmd.Env, env...)
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", said)
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
		all := unpackBundle(t, file)
		for part, content := range all {
			for what, secret := range secrets {
				if at := strings.Index(content, secret); at >= 0 {
					t.Errorf("%s is in %s: %q", what, part, content[max(0, at-200):min(len(content), at+100)])
				}
			}
		}
		for what, secret := range secrets { // who runs it is told which account is which
			if what != "an account's name" {
				require.NotContains(t, string(said), secret, what)
			}
		}
		return all
	}
	shell := []string{"SUPPORT_TEST_KEY=" + secrets["a key by env()"], "MY_API_KEY=" + secrets["a variable of the shell"]}

	all := search(t, shell, id, "--profiles")
	for _, part := range []string{"version.json", "status.json", "system.json", "check.json", "config/gateway.hcl",
		"config/Caddyfile", "plugins.json", "routes.json", "requests.json", "history.json", "metrics.txt", "ledger.json",
		"request/record.json", "request/explanation.json", "log/fareway.log.jsonl", "request/log-0.jsonl",
		"profiles/goroutines.txt", "profiles/heap.pprof", "README.txt", "manifest.json"} {
		require.NotEmpty(t, all[part], part)
	}
	require.Len(t, all, 20)
	require.Contains(t, all["config/gateway.hcl"], `env("SUPPORT_TEST_KEY")`, "where it is from")
	require.Contains(t, all["config/gateway.hcl"], up.URL())
	require.Contains(t, all["config/Caddyfile"], "header *** ***")
	require.Contains(t, all["request/log-0.jsonl"], `"msg":"planted"`)
	require.Contains(t, all["request/log-0.jsonl"], `"account":"account-`)
	require.Contains(t, all["status.json"], `"ready": true`)
	require.Contains(t, all["metrics.txt"], "fareway_requests_total{")

	elsewhere := search(t, nil) // the shell has nothing of what the service has
	require.Contains(t, elsewhere["check.json"], `"ok": true`, "it is checked with what the service has")
	require.NoError(t, os.WriteFile(filepath.Join(g.Dir, "gateway.hcl"), []byte(strings.Replace(config,
		`"${env("SUPPORT_TEST_KEY")}${file("upstream.key")}"`, `"`+secrets["a key that is written out"]+`"`, 1)+fmt.Sprintf(`
provider "lost" {
  plugin = "openai"
  config {
    base_url = "http://somebody:%s@lost.invalid:1/v1"
  }
}
nonsense %q {
`, secrets["a password in a URL"], secrets["a webhook's secret"])), 0o600))
	broken := search(t, shell)
	require.Contains(t, broken["check.json"], `"ok": false`)

	g.says = "(?s:.*the saved configuration is refused.*)?" // it may have seen by now that the saved file is refused
	g.stop(t)
	offline := search(t, shell, id)
	require.Contains(t, offline["README.txt"], "status.json: no gateway is running")
	require.NotContains(t, offline, "status.json")
	require.NotEmpty(t, offline["log/fareway.log.jsonl"])
	require.NotEmpty(t, offline["config/gateway.hcl"])

	list := fareway(g.Dir, "gateway", "support-bundle", "--data", g.Dir, "--list", "--json")
	said, err := list.Output()
	require.NoError(t, err)
	var manifest struct {
		File  string
		Files []struct{ Name string }
	}
	require.NoError(t, json.Unmarshal(said, &manifest))
	require.Empty(t, manifest.File)
	require.NotEmpty(t, manifest.Files)
	left, err := filepath.Glob(filepath.Join(g.Dir, "fareway-support-*"))
	require.NoError(t, err)
	require.Empty(t, left, "--list writes nothing")
}

// unpackBundle reads a bundle: what is compressed in it, too.
func unpackBundle(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	zip, err := gzip.NewReader(f)
	require.NoError(t, err)
	archive := tar.NewReader(zip)
	all := map[string]string{}
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		var content io.Reader = archive
		if strings.HasSuffix(h.Name, ".pprof") {
			content, err = gzip.NewReader(archive)
			require.NoError(t, err)
		}
		text, err := io.ReadAll(content)
		require.NoError(t, err)
		_, name, _ := strings.Cut(h.Name, "/")
		all[name] = string(text)
	}
}
