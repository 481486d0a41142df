package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSupportBundleWords: what is wrong with the question is said, and nothing is written then.
func TestSupportBundleWords(t *testing.T) {
	t.Parallel()
	data, _ := running(t)
	for want, args := range map[string][]string{
		`"abc" is no request's id`:                 {"abc"},
		"one argument too many":                    {"req_1", "req_2"},
		"--list and --out do not go together":      {"--list", "--out", "x"},
		"--log-lines -1: write a number from 0 to": {"--log-lines", "-1"},
	} {
		_, err := run(t, append(append([]string{"support-bundle"}, args...), "--data", data)...)
		require.ErrorContains(t, err, want)
	}
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	out, err := run(t, "support-bundle", "--data", data, "--out", file)
	require.NoError(t, err)
	require.Contains(t, out, "is yours alone to read (0600)")
	require.Contains(t, out, "Look at it before you pass it on: tar -xzOf "+file)
	_, err = run(t, "support-bundle", "--data", data, "--out", file)
	require.ErrorIs(t, err, os.ErrExist)
	require.ErrorContains(t, err, "name another file with --out")

	v := runJSON[supportView](t, "support-bundle", "--data", data, "--list", "req_none", "--profiles")
	require.Empty(t, v.File)
	missing := map[string]string{}
	for _, m := range v.Missing {
		missing[m.What] = m.Why
	}
	require.Contains(t, missing["request/record.json"], `there is no request "req_none"`)
	require.Contains(t, missing["profiles/heap.pprof"], "only Caddy's own admin endpoint has it")
	require.Contains(t, missing["log"], "journalctl")
}

// TestPlainValues: what begins with a slash is a path only if something is there, and a long number may be a PIN.
func TestPlainValues(t *testing.T) {
	t.Parallel()
	for value, plain := range map[string]bool{t.TempDir(): true, "/no/such/s3cret": false, "1234567": true,
		"12345678": false, "1.5": true, "short": true, "s3cret-value": false} {
		require.Equal(t, plain, isPlainValue(value), value)
	}
}

// TestSupportBundleOfBrokenCaddyfile: a Caddyfile that nobody can read hides neither itself nor the configuration,
// whether it is found or named.
func TestSupportBundleOfBrokenCaddyfile(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	file := filepath.Join(data, "Caddyfile")
	broken := "example.com {\n\tnonsense s3cret\n\tfareway {\n\t\tnobody_knows\n\t}\n}\n"
	require.NoError(t, os.WriteFile(file, []byte(broken), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(data, "gateway.hcl"), []byte("route \"small\" {\n"), 0o600))
	for _, args := range [][]string{{"--data", data}, {"--config", file}} {
		v := runJSON[supportView](t, append([]string{"support-bundle", "--list"}, args...)...)
		names := map[string]bool{}
		for i := range v.Files {
			names[v.Files[i].Name] = true
		}
		require.True(t, names["config/Caddyfile"], "%v", names)
		require.True(t, names["config/gateway.hcl"])
		require.True(t, names["check.json"])
		said := false
		for _, m := range v.Missing {
			require.NotContains(t, m.Why, "s3cret")
			said = said || strings.Contains(m.What, "Caddyfile")
		}
		require.True(t, said, "%v", v.Missing)
	}
	_, err := run(t, "support-bundle", "--list", "--config", filepath.Join(t.TempDir(), "Caddyfile"))
	require.Error(t, err, "there is nothing to be had")
}

// TestShownCaddyfile: of a directive that nobody knows to be harmless only the name is shown, and no comment.
func TestShownCaddyfile(t *testing.T) {
	t.Parallel()
	text, hidden, err := showCaddyfile([]byte(`{
	email ops@example.com # old-token
	acme_dns cloudflare s3cret
	servers {
		trusted_proxies static 10.0.0.0/8
	}
}
api.example.com {
	tls {
		dns route53 {
			secret_access_key s3cret
		}
	}
	basic_auth {
		Bob-The-Admin $2a$14$s3cret
	}
	header Authorization "Bearer s3cret"
	respond <<EOT
		s3cret
		EOT 200
	reverse_proxy https://u:s3cret@10.0.0.1
	fareway
}
`), "Caddyfile")
	require.NoError(t, err)
	require.Equal(t, `{
	email ops@example.com
	acme_dns *** ***
	servers {
		trusted_proxies static 10.0.0.0/8
	}
}
api.example.com {
	tls {
		dns *** {
			secret_access_key ***
		}
	}
	basic_auth {
		*** ***
	}
	header *** ***
	respond *** 200


	reverse_proxy ***
	fareway
}
`, text)
	require.Equal(t, 10, hidden)
	_, _, err = showCaddyfile([]byte("x {\n respond <<EOT\n s3cret"), "Caddyfile")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "s3cret")

	for name, content := range map[string]string{
		"a site without braces": "example.com\nbasic_auth {\n bob s3cret\n}\nheader X-Key s3cret\n" +
			"respond s3cret.example.com\nheader_up s3cret.example.com example.com",
		"a port alone":         ":8080\nrespond s3cret\nS3cret x s3cret\n",
		"arguments of imports": "example.com {\n import dns s3cret\n import /etc/x s3cret s3cret\n}",
		"imports outside":      "import dns s3cret\nexample.com {\n}",
		"behind several lines": "example.com {\n header X \"a\nb\" s3cret\n respond \"a\nb\"  s3cret\n" +
			" foo <<E\n x\n E s3cret\n}",
		"a list":              "example.com {\n tokens {\n  s3cret\n  ssecrets3cret\n }\n}",
		"users":               "example.com {\n basic_auth {\n  s3cret $2a$14$x\n }\n}",
		"an address":          "https://u:s3cret@example.com {\n}\nexample.com/s3cret {\n}",
		"several addresses":   "a.example.com,\nb.example.com s3cret {\n}",
		"an escaped line end": "example.com {\n header X \\\n s3cret\n}",
		"a default":           "{$SITE:s3cret} {\n respond {$X:s3cret}\n}",
	} {
		text, hidden, err := showCaddyfile([]byte(content), "Caddyfile")
		require.NoError(t, err, name)
		require.NotContains(t, text, "s3cret", name)
		require.NotZero(t, hidden, name)
	}
	text, hidden, err = showCaddyfile([]byte("a.example.com, http://:{$PORT} {\n}\n(dns) {\n}\n:8080,\nlocalhost {\n}\n"),
		"Caddyfile")
	require.NoError(t, err)
	require.Equal(t, "a.example.com, http://:{$PORT} {\n}\n(dns) {\n}\n:8080,\nlocalhost {\n}\n", text)
	require.Zero(t, hidden)
	for name, content := range map[string]string{
		"Caddyfile": " {\n \"apps\": {\"s3cret\": 1}}", "caddy.json": "{}", "x.YAML": "a: s3cret",
		"Caddyfile2": `{"a":"s3cret"}`, "list": `["s3cret"]`,
	} {
		_, _, err := showCaddyfile([]byte(content), name)
		require.ErrorIs(t, err, errNoCaddyfile, name)
	}
}
