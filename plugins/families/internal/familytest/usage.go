package familytest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

// Metered is how the replies of a family's upstream tell what they used.
type Metered struct {
	Input, Output string   // the names of the main counts
	Details       []string // objects with a count in them, with %s where that stands
	// Stream and Whole read a reply of some text with these usage objects: as they follow each other in a stream, and
	// one in a reply of one piece. "" is none.
	Stream func(usage ...string) ([]llm.Event, error)
	Whole  func(usage string) ([]llm.Event, error)
	// Once: a stream tells its usage once, at its end.
	Once bool
}

// Usages checks what a family takes for usage, and how several reports of it add up (GAP-111).
func Usages(t *testing.T, m Metered) {
	object := func(input, output string) string {
		return fmt.Sprintf(`{%q:%s,%q:%s}`, m.Input, input, m.Output, output)
	}
	only := func(name, n string) string { return fmt.Sprintf(`{%q:%s}`, name, n) }
	told := func(t *testing.T, r read) *llm.Usage {
		t.Helper()
		events, err := r.events, r.err
		require.NoError(t, err)
		var told *llm.Usage
		for _, ev := range events {
			if ev.Kind == llm.EventUsage {
				require.Nil(t, told, "usage is sent once")
				told = ev.Usage
			}
		}
		return told
	}
	flawed := func(t *testing.T, want, usage string) {
		t.Helper()
		for _, u := range []*llm.Usage{told(t, reads(m.Stream(usage))), told(t, reads(m.Whole(usage)))} {
			require.Equal(t, &llm.Usage{Flaw: want}, u)
		}
	}
	for value, problem := range map[string]string{
		"-50": "is negative", "-0.5": "is negative", `"50"`: "is not a number", "true": "is not a number",
		"[50]": "is not a number",
		"{}":   "is not a number", "50.5": "is not a whole number", "0.1": "is not a whole number",
		"1e19": "is above 2^53", "9007199254740993": "is above 2^53", "1e999": "is above 2^53", "null": "is missing",
	} {
		t.Run("GAP-111 "+value, func(t *testing.T) {
			t.Parallel()
			flawed(t, m.Output+" "+problem, object("10", value))
			flawed(t, m.Input+" "+problem, object(value, "5"))
			for _, detail := range m.Details {
				if value != "null" {
					whole := object("10", "5")
					usage := whole[:len(whole)-1] + "," + fmt.Sprintf(detail, value) + "}"
					require.Contains(t, told(t, reads(m.Whole(usage))).Flaw, problem)
				}
			}
		})
	}
	t.Run("GAP-111 half a usage", func(t *testing.T) {
		t.Parallel()
		flawed(t, m.Output+" is missing", only(m.Input, "10"))
		flawed(t, m.Input+" is missing", only(m.Output, "5"))
		flawed(t, m.Input+" is missing", `{}`)
		flawed(t, "usage is not an object", `"50"`)
		flawed(t, "usage is not an object", `[10,5]`)
	})
	t.Run("GAP-111 what is a count", func(t *testing.T) {
		t.Parallel()
		for value, n := range map[string]int64{"0": 0, "50": 50, "50.0": 50, "5e1": 50, "-0": 0,
			"9007199254740992": 1 << 53} {
			require.Equal(t, Used(10, n), told(t, reads(m.Whole(object("10", value)))), value)
			require.Equal(t, Used(10, n), told(t, reads(m.Stream(object("10", value)))), value)
		}
		for _, zero := range []string{"0", "-0", "0.0", "0e3"} {
			require.Equal(t, Used(0, 5), told(t, reads(m.Whole(object(zero, "5")))), "GAP-109 explicit zero is zero")
			require.Equal(t, Used(0, 0), told(t, reads(m.Whole(object(zero, zero)))), "GAP-108 is the gateway's to judge")
		}
		require.Nil(t, told(t, reads(m.Whole(""))))
		require.Nil(t, told(t, reads(m.Whole("null"))))
		require.Nil(t, told(t, reads(m.Stream(""))))
	})
	if m.Once {
		return
	}
	doubted := func(why string) *llm.Usage {
		u := Used(10, 5)
		u.Doubt = why
		return u
	}
	const smaller = "a later report has a smaller prompt"
	t.Run("GAP-111 GAP-124 a later usage", func(t *testing.T) {
		t.Parallel()
		good := object("10", "5")
		for _, tt := range []struct {
			name  string
			usage []string
			want  *llm.Usage
		}{
			{"completes", []string{only(m.Input, "10"), only(m.Output, "5")}, Used(10, 5)},
			{"replaces", []string{object("1", "1"), good}, Used(10, 5)},
			{"is partial", []string{good, only(m.Input, "7")}, doubted(smaller)},
			{"is partial and more", []string{good, only(m.Output, "7")}, Used(10, 7)},
			{"says nothing", []string{good, `{}`, "null"}, Used(10, 5)},
			{"goes down", []string{good, object("3", "2")}, doubted(smaller)},
			{"goes down in its output", []string{good, object("10", "2")}, doubted("a later report has a smaller output")},
			{"is none", []string{good, object("10", "-50")}, doubted(m.Output + " is negative")},
			{"is none at all", []string{good, `[]`}, doubted("usage is not an object")},
			{"is one after all", []string{object("10", "-50"), good}, Used(10, 5)},
			{"is half of one after none", []string{object("10", "-50"), only(m.Input, "10")},
				&llm.Usage{Flaw: m.Output + " is missing"}},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				require.Equal(t, tt.want, told(t, reads(m.Stream(tt.usage...))))
			})
		}
	})
}

// read is what a decoder made of a reply.
type read struct {
	events []llm.Event
	err    error
}

func reads(events []llm.Event, err error) read { return read{events, err} }
