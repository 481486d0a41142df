package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The last value that is taken, and the first that is not, of whatever has a bound.
func TestBounds(t *testing.T) {
	t.Parallel()
	plan := func(line string) string { return minimal + "plan \"p\" {\n" + line + "\n}\n" }
	gateway := func(line string) string { return "gateway {\n" + line + "\n}\n" + minimal }
	route := func(name string) func(string) string {
		return func(line string) string {
			text := strings.Replace(minimal, "  provider       = \"local\"\n", "  provider       = \"local\"\n  "+line+"\n", 1)
			lines := strings.Split(text, "\n")
			kept := lines[:0]
			for _, l := range lines {
				if l := strings.TrimSpace(l); !strings.HasPrefix(l, name+" ") || l == line {
					kept = append(kept, l)
				}
			}
			return strings.Join(kept, "\n")
		}
	}
	profile := func(line string) string { return minimal + "profile \"max\" {\n" + line + "\n}\n" }
	long := func(line string) string { return minimal + "special \"long_context\" {\n" + line + "\n}\n" }
	graphics := func(line string) string { return minimal + "special \"graphics\" {\n" + line + "\n}\n" }
	plugin := func(line string) string {
		return strings.Replace(gateway(`plugin_dir = "p"`), "\"echo\"\n", "\"echo\"\n"+line+"\n", 1)
	}
	text := func(n int) string { return `"` + strings.Repeat("n", n) + `"` }
	terms := func(n int) string { return "[" + strings.TrimSuffix(numbered(`"t%d", `, n), ", ") + "]" }
	for _, test := range []struct {
		in                    func(string) string
		setting, good, beyond string
		says                  string
	}{
		{gateway, "max_streams = %s", "1000000", "1000001", "at most 1000000"},
		{gateway, "max_streams = %s", "1", "0", "at least 1"},
		{gateway, "receipt_age = %s", `"90d"`, `"2160h1s"`, `"90d"`},
		{gateway, "request_log = %s", `"90d"`, `"2160h1s"`, `"90d"`},
		{gateway, "client_stall = %s", `"24h"`, `"24h1ms"`, `"24h"`},
		{gateway, "client_stall = %s", `"1ms"`, `"999us"`, `"1ms"`},
		{gateway, "plugin_dir = %s", text(4096), text(4097), "at most 4096 bytes"},
		{gateway, "max_body = 1\nmax_body_memory = %s", `"1024GiB"`, `"1025GiB"`, "1024GiB"},
		{gateway, "max_body = \"2MiB\"\nmax_body_memory = %s", `"2MiB"`, `"1MiB"`, "would never fit"},
		{profile, "cost = %s\nquality = 1", "1000000", "1000000.5", "at most 1000000"},
		{profile, "cost = 1\nquality = %s", "0", "-0.1", "negative"},
		{plan, "monthly_credits = %s", "1000000000", "1000000001", "at most 1000000000"},
		{plan, "monthly_credits = %s", "0", "-1", "at least 0"},
		{long, "above = %s", "100000000", "100000001", "at most 100000000"},
		{long, "above = %s", "1", "0", "at least 1"},
		{graphics, "terms = [%s]", text(64), text(65), "at most 64 bytes"},
		{graphics, "terms = %s", terms(200), terms(201), "at most 200 entries"},
		{plugin, "sha256 = %s", `"` + strings.Repeat("a", 64) + `"`, `"` + strings.Repeat("a", 65) + `"`, "64 hexadecimal"},
		{route("model"), "model = %s", text(256), text(257), "at most 256 bytes"},
		{route("context_window"), "context_window = %s", "100000000", "100000001", "at most 100000000"},
		{route("max_output"), "max_output = %s", "1", "0", "at least 1"},
		{route("quality"), "quality = %s", "1", "1.01", "from 0 to 1"},
		{route("quality"), "quality = %s", "0", "-0.01", "from 0 to 1"},
		{route("max_concurrent"), "max_concurrent = %s", "1000000", "1000001", "at most 1000000"},
		{route("max_concurrent"), "max_concurrent = %s", "0", "-1", "at least 0"},
	} {
		t.Run(fmt.Sprintf("%s %.12s", test.setting, test.good), func(t *testing.T) {
			t.Parallel()
			_, diags := loadText(t, test.in(fmt.Sprintf(test.setting, test.good)))
			require.NoError(t, diags.Err())
			_, diags = loadText(t, test.in(fmt.Sprintf(test.setting, test.beyond)))
			require.Len(t, diags.All(), 1, printed(t, diags))
			require.Contains(t, diags.All()[0].Detail, test.says)
		})
	}
}
