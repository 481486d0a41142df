package cache

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func key(n int) (k Key) {
	k[0], k[1] = byte(n), byte(n>>8)
	return k
}

func TestMemory(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := &clock{time.Unix(1_000, 0)}
	m := NewMemory(c.now)
	reply := func(n int) Reply { return Reply{Text: strings.Repeat("x", 1_000-entryCost) + fmt.Sprint(n)} }
	m.Put(ctx, key(1), reply(1), time.Minute)
	_, ok := m.Get(ctx, key(1))
	require.False(t, ok, "it has no room yet")

	m.Limit(20 * 1_001)
	for n := range 20 {
		m.Put(ctx, key(n), reply(n%10), time.Minute)
	}
	first, ok := m.Get(ctx, key(0))
	require.True(t, ok)
	require.Equal(t, reply(0), first)
	m.Put(ctx, key(20), reply(0), time.Minute)
	_, ok = m.Get(ctx, key(1))
	require.False(t, ok, "it was used longest ago")
	_, ok = m.Get(ctx, key(0))
	require.True(t, ok)
	replies, bytes, evicted := m.Usage()
	require.Equal(t, []int64{20, 20 * 1_001, 1}, []int64{replies, bytes, evicted})

	m.Put(ctx, key(0), Reply{Text: strings.Repeat("x", 2_000)}, time.Minute)
	_, ok = m.Get(ctx, key(0))
	require.False(t, ok, "one that is too large takes the place of none, and what was there is not its request's any more")
	stop := "END"
	m.Put(ctx, key(3), Reply{Text: "", Stop: &stop}, time.Hour)
	again, ok := m.Get(ctx, key(3))
	require.True(t, ok)
	require.Equal(t, Reply{Stop: &stop}, again)

	c.at = c.at.Add(time.Minute)
	for n := range 21 {
		_, ok = m.Get(ctx, key(n))
		require.Equal(t, n == 3, ok, "its time is over")
	}
	replies, bytes, _ = m.Usage()
	require.Equal(t, []int64{1, entryCost + 3}, []int64{replies, bytes})
	m.Limit(0)
	replies, bytes, _ = m.Usage()
	require.Zero(t, replies)
	require.Zero(t, bytes)
}

// TestMemoryKeepsASixteenth: the largest reply that is kept takes a sixteenth of the room, with its stop sequence.
func TestMemoryKeepsASixteenth(t *testing.T) {
	t.Parallel()
	stop := "END"
	m := NewMemory((&clock{time.Unix(1_000, 0)}).now)
	m.Limit(16 * 1_000)
	for n, test := range []struct {
		bytes int
		stop  *string
		kept  bool
	}{{1_000, nil, true}, {1_001, nil, false}, {997, &stop, true}, {998, &stop, false}} {
		m.Put(t.Context(), key(n), Reply{Text: strings.Repeat("x", test.bytes-entryCost), Stop: test.stop}, time.Minute)
		_, kept := m.Get(t.Context(), key(n))
		require.Equal(t, test.kept, kept, "%d bytes, row %d", test.bytes, n)
	}
}

// TestKeysCannotBeForged: no request can be written so that it reads as another one (GAP-61): what is hashed of one is
// never the beginning of what is hashed of another, even where all of it is zeros, as lengths and absent values are.
func TestKeysCannotBeForged(t *testing.T) {
	t.Parallel()
	zeros, zero, yes, no := strings.Repeat("\x00", 16), 0.0, true, false
	message := func(parts ...llm.Part) *llm.Request {
		return &llm.Request{Messages: []llm.Message{{Parts: parts}}}
	}
	call := func(c *llm.ToolCall) *llm.Request { return message(llm.Part{Call: c}) }
	format := func(f llm.Format) *llm.Request { return &llm.Request{Format: &f} }
	written := map[string]string{}
	for what, r := range map[string]*llm.Request{
		"nothing":            {},
		"a message":          message(),
		"two messages":       {Messages: make([]llm.Message, 2)},
		"a role":             {Messages: []llm.Message{{Role: llm.Role(zeros)}}},
		"a call's result":    {Messages: []llm.Message{{CallID: zeros}}},
		"a part":             message(llm.Text("")),
		"two parts":          message(llm.Text(""), llm.Text("")),
		"a text":             message(llm.Text(zeros)),
		"a call":             call(&llm.ToolCall{}),
		"a call's id":        call(&llm.ToolCall{ID: zeros}),
		"a call's name":      call(&llm.ToolCall{Name: zeros}),
		"a call's arguments": call(&llm.ToolCall{Arguments: llm.Plain(zeros)}),
		"a tool":             {Tools: make([]llm.Tool, 1)},
		"two tools":          {Tools: make([]llm.Tool, 2)},
		"a schema":           {Tools: []llm.Tool{{Schema: json.RawMessage(zeros)}}},
		"a strict tool":      {Tools: []llm.Tool{{Strict: true}}},
		"a choice":           {ToolChoice: llm.ToolChoice{Name: zeros}},
		"a temperature":      {Temperature: &zero},
		"a stop":             {Stop: []string{""}},
		"two stops":          {Stop: []string{"", ""}},
		"a long stop":        {Stop: []string{zeros}},
		"a format":           format(llm.Format{}),
		"a format's name":    format(llm.Format{Name: zeros}),
		"a format's schema":  format(llm.Format{Schema: json.RawMessage(zeros)}),
		"a strict format":    format(llm.Format{Strict: &yes}),
		"a loose format":     format(llm.Format{Strict: &no}),
	} {
		var b strings.Builder
		(&writer{hash: &b}).request(Scope{}, r)
		for other, text := range written {
			require.False(t, strings.HasPrefix(text, b.String()) || strings.HasPrefix(b.String(), text),
				"%s reads as %s", what, other)
		}
		written[what] = b.String()
	}
}

// TestKeys: whatever a route would get, and for whom, makes another key (GAP-61, PROF-21).
func TestKeys(t *testing.T) {
	t.Parallel()
	keys := NewKeys([]byte("secret"))
	scope := Scope{Account: "a", Family: "chat", Profile: "max", Configuration: "c", Plan: "p"}
	zero, minus, hardly, one, yes, no := 0.0, math.Copysign(0, -1), 1e-20, 1.0, true, false
	request := func() *llm.Request {
		return &llm.Request{
			Messages:  []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("ab"), {Text: llm.Plain("c")}}}},
			Tools:     []llm.Tool{{Name: "f", Description: "d", Schema: json.RawMessage(`{}`)}},
			MaxTokens: 5, Temperature: &zero, Stop: []string{"x", "y"},
			Format: &llm.Format{Kind: llm.FormatJSONSchema, Name: "n", Schema: json.RawMessage(`{}`)},
		}
	}
	same := keys.Key(scope, request())
	escaped := request()
	escaped.Messages[0].Parts[0].Text = llm.Quoted(`\u0061b`)
	escaped.Model, escaped.Attempt, escaped.Window, escaped.Whole = "m", "req_1.1", 7, true
	require.Equal(t, same, keys.Key(scope, escaped), "the same text, and what is the attempt's alone")
	negative := request()
	negative.Temperature = &minus
	require.Equal(t, same, keys.Key(scope, negative), "-0 is 0")
	require.NotEqual(t, same, NewKeys([]byte("another")).Key(scope, request()))

	seen := map[Key]string{same: "nothing"}
	differs := func(what string, k Key) {
		require.NotContains(t, seen, k, "%s, as %s", what, seen[k])
		seen[k] = what
	}
	for i := range reflect.TypeFor[Scope]().NumField() {
		other := scope
		switch f := reflect.ValueOf(&other).Elem().Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		default:
			f.SetString("other")
		}
		differs(reflect.TypeFor[Scope]().Field(i).Name, keys.Key(other, request()))
	}
	for what, change := range map[string]func(*llm.Request){
		"role":            func(r *llm.Request) { r.Messages[0].Role = llm.RoleAssistant },
		"text":            func(r *llm.Request) { r.Messages[0].Parts[0] = llm.Text("ax") },
		"parts":           func(r *llm.Request) { r.Messages[0].Parts = []llm.Part{llm.Text("abc")} },
		"parts moved":     func(r *llm.Request) { r.Messages[0].Parts = []llm.Part{llm.Text("a"), llm.Text("bc")} },
		"messages":        func(r *llm.Request) { r.Messages = append(r.Messages, llm.Message{Role: llm.RoleUser}) },
		"call id":         func(r *llm.Request) { r.Messages[0].CallID = "1" },
		"error":           func(r *llm.Request) { r.Messages[0].IsError = true },
		"call":            func(r *llm.Request) { r.Messages[0].Parts[1].Call = &llm.ToolCall{} },
		"call's id":       func(r *llm.Request) { r.Messages[0].Parts[1].Call = &llm.ToolCall{ID: "1"} },
		"call's name":     func(r *llm.Request) { r.Messages[0].Parts[1].Call = &llm.ToolCall{Name: "1"} },
		"arguments":       func(r *llm.Request) { r.Messages[0].Parts[1].Call = &llm.ToolCall{Arguments: llm.Plain("1")} },
		"no tools":        func(r *llm.Request) { r.Tools = nil },
		"tool":            func(r *llm.Request) { r.Tools[0].Name = "g" },
		"description":     func(r *llm.Request) { r.Tools[0].Description = "e" },
		"schema":          func(r *llm.Request) { r.Tools[0].Schema = json.RawMessage(`{"a":1}`) },
		"strict":          func(r *llm.Request) { r.Tools[0].Strict = true },
		"choice":          func(r *llm.Request) { r.ToolChoice.Mode = llm.ToolNone },
		"named":           func(r *llm.Request) { r.ToolChoice.Name = "f" },
		"allowance":       func(r *llm.Request) { r.MaxTokens = 6 },
		"no temperature":  func(r *llm.Request) { r.Temperature = nil },
		"temperature":     func(r *llm.Request) { r.Temperature = &one },
		"hardly any":      func(r *llm.Request) { r.Temperature = &hardly },
		"stop":            func(r *llm.Request) { r.Stop = []string{"x"} },
		"stop's order":    func(r *llm.Request) { slices.Reverse(r.Stop) },
		"no format":       func(r *llm.Request) { r.Format = nil },
		"format":          func(r *llm.Request) { r.Format.Kind = llm.FormatJSONObject },
		"format's name":   func(r *llm.Request) { r.Format.Name = "m" },
		"format's text":   func(r *llm.Request) { r.Format.Description = "m" },
		"format's schema": func(r *llm.Request) { r.Format.Schema = nil },
		"strict format":   func(r *llm.Request) { r.Format.Strict = &yes },
		"loose format":    func(r *llm.Request) { r.Format.Strict = &no },
	} {
		r := request()
		change(r)
		differs(what, keys.Key(scope, r))
	}
	var known []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[llm.Request]()) {
		known = append(known, f.Name)
	}
	require.Equal(t, []string{"Attempt", "Model", "Messages", "Tools", "ToolChoice", "MaxTokens", "Window", "Temperature",
		"Stop", "Format", "States", "Unsupported", "EstimateUsage", "BillsPastAllowance", "Whole"}, known,
		"a new field belongs into the key, or not")
}
