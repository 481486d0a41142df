package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// planted are secrets of all kinds, none of which anybody has told the redactor.
var planted = []string{
	"fwk_q63uMX9v44aeA7rw4Y0zOe3ShxDTA12TDpbn1REg4Kv1WcLiV", "sk-proj-4f9Kq2mZxW81bTnR7yLc", "sk_live_51Hxabcdefgh",
	"gsk_aB3dE5fG7hI9jK1lM3nO", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "AKIAIOSFODNN7EXAMPLE",
	"AIzaSyD4f9Kq2mZxW81bTnR7yLcQ", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "xoxb-1234567890-abcdefghij",
	"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.c2lnbmF0dXJl", "AGE-SECRET-KEY-1QQPQYQ8Z", "hunter2hunter2",
	"Zm9vOmJhcg1x==", "jane.doe+bills@example.com", "k3yWithAllKinds0fSignsInIt4711x",
	"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw",
}

// sentences are what a secret can stand in.
var sentences = []string{
	"the upstream answered 401: invalid key {} (see the docs)", "Authorization: Bearer {}", `{"api_key": "{}"}`,
	"postgres://fareway:{}@db.example.com:5432/fareway?sslmode=require", "redis://:{}@10.0.0.1", "password={} host=db",
	`token = "{}"`, "GET https://example.com/v1?key={}&x=1 failed", "dialing https://{}@example.com: refused",
	"-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", `webhook secret: "{}"`, "X-Api-Key: {}",
	"Proxy-Authorization: Basic {}", "set-cookie={}; Path=/",
}

// TestSecretsAreFound: secrets that look like one, or stand where one stands, are taken out of any text.
func TestSecretsAreFound(t *testing.T) {
	t.Parallel()
	var r Redactor
	for _, sentence := range sentences {
		for _, secret := range planted {
			if sentence == sentences[0] && strings.HasPrefix(secret, "hunter") || sentence == sentences[0] &&
				strings.HasPrefix(secret, "Zm9v") {
				continue // a word like any other, in a place like any other: who knows it has to say so
			}
			found := map[string]int{}
			shown := r.Text(strings.ReplaceAll(sentence, "{}", secret), found)
			require.NotContains(t, shown, secret, sentence)
			require.NotEmpty(t, found)
		}
	}
	for _, harmless := range []string{
		"fareway_limited_total{reason=\"key_requests_per_minute\"} 0", "req_01a21ab3017ca3f6afc66dc7ffb249fc",
		"da2a749fd5e25e48a5272fd6bee2583bd6c46dee46e3353bcc84096c035729aa", "the upstream answered 503 after 12 s",
		"input_tokens: 12, output_tokens: 7", "http://127.0.0.1:11434/v1", "2026-11-27T01:48:46.072821915Z",
		"github.com/charmbracelet/ultraviolet v0.0.0-20261008173134-6b8d4baf91b4",
	} {
		require.Equal(t, harmless, r.Text(harmless, map[string]int{}))
	}
}

// What is known to be secret is taken out in every form, wherever it is.
func TestKnownSecrets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[ -~äß\n"\\]{5,40}`).Filter(func(s string) bool {
			return len(strings.TrimSpace(s)) >= 8
		}).Draw(t, "secret")
		var r Redactor
		r.Secret(secret, "it")
		words := rapid.StringMatching(`[a-z ]{0,9}`)
		before, after := words.Draw(t, "before"), words.Draw(t, "after")
		quoted, err := json.Marshal(secret)
		require.NoError(t, err)
		for _, form := range []string{secret, string(quoted), base64.StdEncoding.EncodeToString([]byte(secret))} {
			shown := r.Text(before+form+after, map[string]int{})
			require.NotContains(t, shown, secret)
			require.NotContains(t, shown, strings.Trim(form, `"`))
		}
		content, err := r.JSON(map[string]any{"reason": secret, "name": secret, "nobody_knows": secret, secret: 1},
			map[string]int{})
		require.NoError(t, err)
		require.NotContains(t, string(content), string(quoted[1:len(quoted)-1]))

		b := New(time.Unix(0, 0)) // the secret is told last
		require.NoError(t, b.AddJSON("a.json", "a", map[string]any{"reason": before + secret + after, secret: "x"}))
		b.AddLines("a.jsonl", "a", [][]byte{[]byte(`{"msg":` + string(quoted) + `,"error":"x"}`)})
		b.AddShown("a.txt", "a", before+secret+after+string(quoted), nil)
		b.Miss("b", errors.New(secret))
		b.Secret(secret, "it")
		var plain bytes.Buffer
		e := json.NewEncoder(&plain)
		e.SetEscapeHTML(false)
		require.NoError(t, e.Encode(secret))
		packed, _, err := b.Pack(context.Background(), "")
		require.NoError(t, err)
		for name, content := range unpack(t, packed) {
			for _, form := range []string{secret, string(quoted), plain.String()} {
				require.NotContains(t, content, strings.Trim(strings.TrimSpace(form), `"`), name)
			}
		}
	})
}

// TestOnlyKnownFields: of JSON a field that nobody has looked at is left out, and names are called otherwise.
func TestOnlyKnownFields(t *testing.T) {
	t.Parallel()
	var r Redactor
	r.Path("/home/jane/gateway", "DATA")
	r.Machine("janes-laptop")
	found := map[string]int{}
	content, err := r.JSON(map[string]any{
		"account": "acme", "account_id": "acct_1", "key": "laptop", "key_id": "key_1", "client_ip": "203.0.113.9",
		"prompt": "tell me", "messages": []any{map[string]any{"content": "tell me"}}, "reference": "invoice of Jane",
		"mail":   []string{"jane@example.com"},
		"status": 200, "at": "2026-11-27T02:00:00Z", "route": "small", "reason": "acme is suspended", "settled": true,
		"text": "reading /home/jane/gateway/x on janes-laptop, not acmex", "key_last4": "c1XZ",
		"traffic": map[string]any{"accounts": map[string]any{"acct_1": map[string]any{"failed": 1}}},
	}, found)
	require.NoError(t, err)
	require.JSONEq(t, `{"account": "account-1", "account_id": "account-1", "key": "key-1", "key_id": "key-1",
		"client_ip": "client-1", "prompt": "[left out]", "messages": "[left out]", "reference": "[left out]",
		"mail": "[left out]",
		"status": 200, "at": "2026-11-27T02:00:00Z", "route": "small", "reason": "account-1 is suspended", "settled": true,
		"text": "reading DATA/x on machine-1, not acmex", "key_last4": "c1XZ",
		"traffic": {"accounts": {"account-1": {"failed": 1}}}}`, string(content))
	require.Equal(t, map[string]int{"fields that are on no list": 4}, found)
	require.Equal(t, map[string]string{"acme": "account-1", "acct_1": "account-1"}, r.Accounts())

	kept := Redactor{KeepNames: true}
	content, err = kept.JSON(map[string]any{"account": "acme", "reason": "acme is suspended"}, found)
	require.NoError(t, err)
	require.JSONEq(t, `{"account": "acme", "reason": "acme is suspended"}`, string(content))
}

// TestBundle: it says what is in it and what is not, it is its owner's alone, and it changes no file that is there.
func TestBundle(t *testing.T) {
	t.Parallel()
	b := New(time.Date(2026, 11, 27, 2, 0, 0, 0, time.UTC))
	require.NoError(t, b.AddJSON("a.json", "what a is", map[string]any{"reason": "the late secret is s3cr3t-late"}))
	b.AddLines("log.jsonl", "lines", [][]byte{[]byte(`{"msg":"request","account":"acme"}`),
		[]byte("panic: s3cr3t-late\n")})
	b.AddShown("a.txt", "text", "hello", nil)
	b.AddBytes("heap.pprof", "heap", []byte{1, 2, 3})
	b.Secret("s3cr3t-late", "what was learned late")
	b.Miss("nodes.json", errors.New("nobody answers"))
	packed, m, err := b.Pack(t.Context(), "req_1")
	require.NoError(t, err)
	read := unpack(t, packed)
	require.Equal(t, `{"msg":"[left out]"}`, strings.Split(read["log.jsonl"], "\n")[1])
	require.Contains(t, read["a.json"], "[what was learned late]")
	require.Equal(t, "\x01\x02\x03", read["heap.pprof"])
	require.Contains(t, read["README.txt"], "nodes.json: nobody answers")
	require.Contains(t, read["manifest.json"], `"lines that are no JSON": 1`)
	require.Len(t, m.Files, 4)
	require.Equal(t, len(read["a.json"]), m.Files[0].Bytes)
	for name, content := range read {
		require.NotContains(t, content, "s3cr3t-late", name)
	}
	again, _, err := b.Pack(t.Context(), "req_1")
	require.NoError(t, err)
	require.Equal(t, packed, again)

	path := filepath.Join(t.TempDir(), b.Name())
	require.NoError(t, Write(path, packed))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.ErrorIs(t, Write(path, packed), os.ErrExist)
}

// TestNoPrompt: a prompt passes under no name of a field, below none that nobody has looked into, and not in what a
// plugin or a service has said.
func TestNoPrompt(t *testing.T) {
	t.Parallel()
	const prompt = "marker prompt"
	b := New(time.Unix(0, 0))
	nested := map[string]any{"text": prompt, "name": prompt, "message": prompt, "error": prompt, prompt: 1}
	require.NoError(t, b.AddJSON("a.json", "a", map[string]any{
		"content": nested, "text": nested, "reason": []any{nested}, "messages": []any{prompt, nested}, "input": []any{prompt},
		"name": prompt + "\n", "model": strings.Repeat(prompt+" ", 100),
		"last_crash":   map[string]any{"cause": "crash", "why": "it ended: " + prompt},
		"last_failure": map[string]any{"text": "cannot read " + prompt + ": connection refused (status 503)"},
		"problem":      "starting plugin p: it ended; its last words: a\n  " + prompt, "last_violation": prompt,
		"error": `it printed "a \" ` + prompt + `" on stdout`,
	}))
	var lines [][]byte
	for _, fields := range []map[string]any{
		{"msg": prompt, "from": "stderr", "provider": "p", "error": prompt},
		{"msg": prompt, "from": "plugin", "provider": prompt, "text": prompt, "name": prompt, "account": prompt, prompt: 1},
		{"msg": "x", "text": prompt, "message": prompt, "name": prompt, "content": prompt, "data": []any{prompt}},
		{"msg": "x", "request": nested, "error": nested, "reason": []any{nested}},
		{"msg": "attempt failed", "error": "upstream_error: cannot read " + prompt + " (status 503)"},
	} {
		line, err := json.Marshal(fields)
		require.NoError(t, err)
		lines = append(lines, line)
	}
	b.AddLines("a.jsonl", "a", lines)
	packed, _, err := b.Pack(t.Context(), "")
	require.NoError(t, err)
	all := unpack(t, packed)
	for name, content := range all {
		require.NotContains(t, content, prompt, name)
	}
	require.Contains(t, all["a.json"], "connection refused: (status 503): [left out]")
	require.Contains(t, all["a.json"], `"cause": "crash"`)
	require.Contains(t, all["a.json"], "starting plugin p: it ended; its last words: [left out]")
	require.Contains(t, all["a.jsonl"], `{"from":"stderr","msg":"[left out]","provider":"p"}`)
	require.Contains(t, all["a.jsonl"], `"error":"upstream_error: (status 503): [left out]"`)
}

// What is learned last to be a name is called otherwise in what came before, in the list of what is missing, and in
// README.txt.
func TestLateNames(t *testing.T) {
	t.Parallel()
	const id = "acct_0193b0a7c5d07f3a9c1e5d2b7a604f11"
	b := New(time.Unix(0, 0))
	require.NoError(t, b.AddJSON("a.json", "a", map[string]any{"reason": "acme corp is suspended", "id": id,
		"error": "of " + id + " from 203.0.113.9:4711"}))
	b.AddShown("a.txt", "a", "acme corp at http://127.0.0.1:80 and http://198.51.100.7/v1 is "+id, nil)
	b.Miss("b", errors.New("acme corp is away"))
	b.AddLines("a.jsonl", "a", [][]byte{[]byte(`{"msg":"x","client_ip":"203.0.113.9","account":"acme corp",` +
		`"account_id":"` + id + `"}`), []byte(`{"msg":"x","client_ip":"127.0.0.1"}`),
		[]byte(`{"msg":"http: 192.0.2.44:1 and [2001:db8::7]:80"}`)})
	packed, _, err := b.Pack(t.Context(), "")
	require.NoError(t, err)
	all := unpack(t, packed)
	for name, content := range all {
		for _, text := range []string{"acme", id, "203.0.113.9", "192.0.2.44", "2001:db8"} {
			require.NotContains(t, content, text, name)
		}
	}
	require.Equal(t, "account-1 at http://127.0.0.1:80 and http://198.51.100.7/v1 is account-1", all["a.txt"])
	require.Contains(t, all["README.txt"], "account-1 is away")
	require.Contains(t, all["a.jsonl"], "http: client-2:1 and [client-3]:80")
}

// TestManyNames: how often a text is looked at does not grow with the names that are known.
func TestManyNames(t *testing.T) {
	t.Parallel()
	b := New(time.Unix(0, 0))
	var lines [][]byte
	for i := range 10_000 {
		lines = append(lines, fmt.Appendf(nil, `{"msg":"request","client_ip":"100.64.%d.%d","account":"acme %d","error":`+
			`"acme %d of 100.64.%d.%d is not acme %dx","name_of_nobody":"x"}`, i/256, i%256, i, i, i/256, i%256, i))
	}
	b.AddLines("a.jsonl", "a", lines)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it took hours
	defer cancel()
	packed, _, err := b.Pack(ctx, "")
	require.NoError(t, err)
	read := strings.Split(unpack(t, packed)["a.jsonl"], "\n")
	require.Contains(t, read[9999], `"error":"account-10000 of client-10000 is not acme 9999x"`)
	require.LessOrEqual(t, len(b.lengths["acme"]), 6, "of 10,000 names so many are tried in one place")

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = b.Pack(canceled, "")
	require.ErrorIs(t, err, context.Canceled)
}

// TestReferences: where a secret is from is shown, and what is written out beside a name that says that it is one is
// not.
func TestReferences(t *testing.T) {
	t.Parallel()
	var r Redactor
	for _, text := range []string{`api_key = env("KEY")`, `api_key = "${env("KEY")}"`, `token = file("x")`,
		`token = "***"`, `secret = var.key`} {
		require.Equal(t, text, r.Text(text, map[string]int{}))
	}
	require.Equal(t, `api_key = [redacted]`, r.Text(`api_key = "s3cret"`, map[string]int{}))
}

func unpack(t require.TestingT, packed []byte) map[string]string {
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	archive := tar.NewReader(zip)
	all := map[string]string{}
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		require.EqualValues(t, 0o600, h.Mode)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		_, name, _ := strings.Cut(h.Name, "/")
		all[name] = string(content)
	}
}
