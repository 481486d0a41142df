package contracttest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestStopSequenceLimits is worked example E13.
func TestStopSequenceLimits(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	distinct := func(n int) []string {
		stops := make([]string, n)
		for i := range stops {
			stops[i] = fmt.Sprintf("stop-%d", i)
		}
		return stops
	}
	for _, tt := range []struct {
		name  string
		stops []string
		ok    bool
	}{
		{"STOP-16 sixteen", distinct(16), true},
		{"STOP-16 STOP-20 STOP-21 seventeen", distinct(17), false},
		{"STOP-17 seventeen with empty ones", append(distinct(7), make([]string, 10)...), false},
		{"STOP-17 seventeen of the same", strings.Split(strings.Repeat("x", 17), ""), false},
		{"STOP-18 as long as allowed", []string{strings.Repeat("a", 256)}, true},
		{"STOP-18 STOP-20 STOP-21 too long", []string{strings.Repeat("a", 257)}, false},
		{"STOP-19 surrogate pairs", []string{strings.Repeat("😀", 128)}, true},
		{"STOP-19 STOP-20 surrogate pairs and one more", []string{strings.Repeat("😀", 128) + "a"}, false},
		{"STOP-19 two bytes, one unit", []string{strings.Repeat("é", 256)}, true},
		{"STOP-19 one glyph of eight units", []string{strings.Repeat("👨‍👩‍👧", 32)}, true},
		{"STOP-19 one glyph too many", []string{strings.Repeat("👨‍👩‍👧", 32) + "a"}, false},
	} {
		for _, sh := range shapes {
			t.Run(tt.name+" "+sh.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				for _, mode := range modes {
					a := c.Ask(sh, mode.Field, stopField(sh, tt.stops...))
					if tt.ok {
						require.Equal(t, "Hello", outcomeOf(t, sh, a).Text)
						continue
					}
					requireError(t, sh, a, 400, "invalid_request_error")
				}
				if !tt.ok {
					c.RequireUntouched(t)
				}
			})
		}
	}
}

// TestStopSequencesUpstream proves what the route is told, and that it does not matter what it makes of it.
func TestStopSequencesUpstream(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Routes: []route{
		{Name: "cheap", Quality: 0.1, Input: "0.1", Output: "0.5"}, {Name: "dear", Quality: 0.9, Input: "10", Output: "50"},
	}, Extra: threeProfiles})
	for _, sh := range shapes {
		t.Run("STOP-15 STOP-22 the first four are sent "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, 60), "stop", upstream.Text("1 e 2")))
			v := askBoth(t, c, sh, stopField(sh, "", "a", "a", "b", "c", "d", "e"))
			require.Equal(t, []any{"a", "b", "c", "d"}, c.Sent(t)["stop"])
			require.Equal(t, "1 ", v.Text, "the service matches the others too (STOP-23)")
		})
		t.Run("STOP-04 on every route "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, 60), "stop", upstream.Text("a END b")))
			for profile, route := range map[string]string{"budget": "cheap", "max": "dear"} {
				for _, mode := range modes {
					a := c.Post(sh.Path, sh.Body("PROMPT", mode.Field, stopField(sh, "END")), "X-Service-Profile", profile)
					require.Equal(t, "a ", outcomeOf(t, sh, a).Text)
					require.Equal(t, route, c.Route(t))
				}
			}
		})
		t.Run("STOP-23 STOP-24 E14 honoured or not "+sh.Name, func(t *testing.T) {
			t.Parallel()
			ignoring, honouring := g.rich(t), g.rich(t)
			reply := script(used(10, 60), "stop", upstream.Text("a END b"))
			ignoring.Answers(reply)
			reply.Honour.Stop = true
			honouring.Answers(reply)
			a, b := askBoth(t, ignoring, sh, stopField(sh, "END")), askBoth(t, honouring, sh, stopField(sh, "END"))
			require.Equal(t, "a ", a.Text)
			require.Equal(t, "a ", b.Text)
			require.Equal(t, finishes["matched"][sh.Name], a.Finish)
			require.Equal(t, finishes["stop"][sh.Name], b.Finish)
			if sh.Name == "messages" {
				require.Equal(t, "END", a.StopSequence)
				require.Nil(t, b.StopSequence)
			}
		})
	}
}
