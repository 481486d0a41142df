package contracttest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// llamaSetup is a gateway before a llama.cpp server, whose calls the gateway makes unless the setup says otherwise.
func llamaSetup(s setup) setup {
	s.Settings, s.Carry = `preset = "llamacpp"`, cmp.Or(s.Carry, "host")
	s.Script.Service = "llamacpp"
	return s
}

// TestLlamaCancel proves GAP-47 for a llama.cpp server, whose chunks say what it has done so far: whoever leaves is
// charged for that, and the server's slot is free at once, whoever makes the calls: the gateway or the provider's
// process.
func TestLlamaCancel(t *testing.T) {
	t.Parallel()
	for _, carry := range []string{"host", "process"} {
		t.Run(carry, func(t *testing.T) {
			t.Parallel()
			testLlamaCancel(t, carry)
		})
	}
}

func testLlamaCancel(t *testing.T, carry string) {
	t.Helper()
	const cost = 60*300 + 40*300 + 2*1500 // the cached part at the price of the input, for the route has no other
	stuck := upstream.Reply{Steps: []upstream.Step{upstream.Text("one "), upstream.Text("two"), upstream.Wait("stuck"),
		upstream.Finish("stop"), upstream.ReportTokens(upstream.Usage{Prompt: 100, Completion: 5_000, Cached: llm.Count(40)}),
		upstream.Done()}}
	patient := startScripted(t, llamaSetup(setup{Carry: carry}))
	slow := startScripted(t, llamaSetup(setup{Carry: carry, Routes: []route{{Name: "first", Timeout: "400ms"}}}))
	first := startScripted(t, llamaSetup(setup{Carry: carry}))
	for _, sh := range shapes {
		t.Run("BILL-22 GAP-47 a client leaves "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := patient.rich(t)
			c.Answers(stuck)
			ctx, leave := context.WithCancel(within(t))
			l := c.Send(t, ctx, sh, streamField).Live()
			l.Start(sh)
			require.Equal(t, "one two", l.Text(sh)+l.Text(sh))
			leave()
			line := c.Access(l.Header.Get("X-Request-Id"))
			require.Equal(t, "client_left", line["reason"])
			require.InDelta(t, cost, line["microcents"], 0)
			require.Equal(t, false, line["pending"])
			require.Equal(t, c.Credits*ledger.MicrocentsPerCredit-cost, c.Net())
			record, err := c.Upstream.Ended(within(t), c.Seen()[0].N)
			require.NoError(t, err)
			require.Equal(t, upstream.OutcomeLeft, record.Outcome)
		})
		for _, mode := range modes {
			t.Run("GAP-47 GAP-113 the route's time is over "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := slow.rich(t)
				c.Answers(stuck)
				r := c.Record(t, reached(t, func() answer { return c.Ask(sh, mode.Field) }, called(c)))
				require.False(t, r.Pending)
				require.EqualValues(t, cost, r.Microcents+r.Waived)
				require.EqualValues(t, 40, *r.Attempts[0].Usage.CacheRead)
			})
			t.Run("BILL-21 the server crashes "+sh.Name+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := patient.rich(t)
				c.Answers(upstream.Reply{Steps: append(stuck.Steps[:2:2], upstream.Cut(), stuck.Steps[4])})
				r := c.Record(t, c.Ask(sh, mode.Field))
				require.EqualValues(t, cost, r.Microcents)
				require.False(t, r.Pending)
			})
		}
	}
	t.Run("GAP-47 the first request of all", func(t *testing.T) {
		t.Parallel()
		c := first.rich(t)
		c.Answers(stuck)
		ctx, leave := context.WithCancel(within(t))
		l := c.Send(t, ctx, shapes[0], streamField).Live()
		l.Start(shapes[0])
		require.Equal(t, "one two", l.Text(shapes[0])+l.Text(shapes[0]))
		leave()
		require.InDelta(t, cost, c.Access(l.Header.Get("X-Request-Id"))["microcents"], 0)
	})
}

// TestLlamaTakesAnAgent: what a coding agent sends with its own tools (the structure of 12 requests of Claude Code,
// without any of its text; testdata/llama), all of which a llama.cpp server refused.
func TestLlamaTakesAnAgent(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/llama/agent.jsonl")
	require.NoError(t, err)
	bodies := strings.Split(strings.TrimSpace(string(file)), "\n")
	require.Len(t, bodies, 12)
	g := startScripted(t, llamaSetup(setup{}))
	for i, body := range bodies {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(upstream.Call("call_1", "Bash", `{"command":"ls"}`))
			a := c.Post("/v1/messages", strings.ReplaceAll(body, "some text", "PROMPT"))
			require.Equal(t, 200, a.StatusCode, "%s", a.Raw)
			require.Contains(t, string(a.Raw), `"stop_reason":"tool_use"`)
			require.Len(t, c.Seen(), 1)
			require.True(t, c.Seen()[0].Timings)
		})
	}
	t.Run("as it came, the server refuses it", func(t *testing.T) {
		t.Parallel()
		var asked struct {
			Tools []struct {
				Name   string          `json:"name"`
				Schema json.RawMessage `json:"input_schema"`
			} `json:"tools"`
		}
		require.NoError(t, json.Unmarshal([]byte(bodies[0]), &asked))
		var tools []string
		for _, tool := range asked.Tools {
			tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":%q,"parameters":%s}}`, tool.Name,
				tool.Schema))
		}
		req, err := http.NewRequestWithContext(within(t), http.MethodPost, g.Upstream.BaseURL()+"/chat/completions",
			strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[`+strings.Join(tools, ",")+`]}`))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 400, resp.StatusCode)
	})
	const tool = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},` +
		`{"type":"function","function":{"name":"g","parameters":{"type":"object"}}}]`
	t.Run("a tool that is named is demanded", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		c.Answers(upstream.Call("call_1", "g", `{}`))
		a := c.Ask(shapes[0], tool, `"tool_choice":{"type":"function","function":{"name":"g"}}`)
		require.Equal(t, 200, a.StatusCode, "%s", a.Raw)
		require.Equal(t, "required", c.Seen()[0].Choice)
		require.Equal(t, []upstream.Tool{{Name: "g"}}, c.Seen()[0].Tools)
	})
	t.Run("arguments that a cut reply left behind", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		c.Answers(upstream.Say("ok"))
		a := c.Post("/v1/chat/completions", `{"model":"service/auto",`+tool+`,"messages":[`+
			`{"role":"user","content":"PROMPT"},{"role":"assistant","content":null,"tool_calls":`+
			`[{"id":"c","type":"function","function":{"name":"f",`+
			`"arguments":"{\"a\":"}}]},{"role":"tool","tool_call_id":"c","content":"x"}]}`)
		require.Equal(t, 200, a.StatusCode, "%s", a.Raw)
		require.True(t, json.Valid([]byte(c.Seen()[0].Messages[1].Calls[0].Arguments)))
	})
}

// TestLlamaTemplate: what its chat template adds is held for, and charged, from the second request on.
func TestLlamaTemplate(t *testing.T) {
	t.Parallel()
	const adds = 1_396
	g := startScripted(t, llamaSetup(setup{Script: upstream.Options{Template: adds}}))
	c := g.rich(t)
	c.Answers(upstream.Say("ok"))
	var last ledger.RequestRecord
	for n := range 3 {
		r := c.Record(t, c.Ask(shapes[0], allowance(shapes[0], 10)))
		used := r.Attempts[0].Usage
		cost := *used.Input*300 + *used.Output*1500
		require.Equal(t, cost, r.Microcents+r.Over)
		require.LessOrEqual(t, r.Microcents, r.Held)
		if n > 0 {
			require.Zero(t, r.Over, "it is learned")
			require.GreaterOrEqual(t, r.Held, last.Held)
		} else {
			require.Positive(t, r.Over)
		}
		last = r
	}
}
