package contracttest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
	"github.com/fareway/fareway/plugins/tokens"
)

// The routes of a gateway with structured output: what they offer beside tools.
const (
	offersObject = `"tools", "json_object"`
	offersSchema = `"tools", "json_object", "json_schema"`
)

const objectLine = "Respond only with a JSON object."

func startStructured(t testing.TB, routes ...route) *scripted {
	t.Helper()
	return startScripted(t, setup{Gateway: "structured_output = true", Routes: routes})
}

// wish is one way to ask for structured output in a shape.
type wish struct {
	Clause string
	Member func(format string) string // a member of the request, from the value of the format
	Schema func(members string) string
}

// wishes are the ways of a shape.
func wishes(sh shape) []wish {
	nested := func(m string) string { return `{"type":"json_schema","json_schema":{` + m + `}}` }
	flat := func(m string) string { return `{"type":"json_schema",` + m + `}` }
	switch sh.Name {
	case "chat":
		return []wish{{"STRUCT-10", func(f string) string { return `"response_format":` + f }, nested}}
	case "responses":
		return []wish{
			{"STRUCT-11", func(f string) string { return `"text":{"format":` + f + `}` }, flat},
			{"STRUCT-12", func(f string) string { return `"response_format":` + f }, nested},
		}
	}
	return []wish{
		{"STRUCT-14", func(f string) string { return `"output_format":` + f }, flat},
		{"STRUCT-15", func(f string) string { return `"output_config":{"format":` + f + `}` }, flat},
	}
}

// system is the text of the system messages that the upstream got.
func (c *caller) system(t testing.TB) string {
	t.Helper()
	text := ""
	for _, m := range c.Sent(t)["messages"].([]any) {
		if m := m.(map[string]any); m["role"] == "system" {
			text += m["content"].(string)
		}
	}
	return text
}

const daySchema = `{"type":"object","properties":{"day":{"type":"string"}},"required":["day"],` +
	`"additionalProperties":false}`

// TestStructuredSchema proves what becomes of a schema: what each kind of route is sent, and that nothing of the
// reply is enforced or taken apart.
func TestStructuredSchema(t *testing.T) {
	t.Parallel()
	object := startStructured(t, route{Name: "object", Offers: offersObject})
	strict := startStructured(t, route{Name: "strict", Offers: offersSchema})
	only := startStructured(t, route{Name: "only", Offers: `"json_schema"`})
	var schema any
	require.NoError(t, json.Unmarshal([]byte(daySchema), &schema))
	// Nothing in it is as the schema wants it.
	free := script(used(10, 5), "stop", upstream.Text(`["not", `), upstream.Text(`"a day"]`))
	for _, sh := range shapes {
		for _, w := range wishes(sh) {
			for _, mode := range modes {
				full := w.Member(w.Schema(`"name":"day","description":"A day.","strict":true,"schema":` + daySchema))
				t.Run(fmt.Sprintf("%s STRUCT-07 STRUCT-20 STRUCT-21 STRUCT-23 STRUCT-32 enforced by the route %s %s", w.Clause,
					sh.Name, mode.Name), func(t *testing.T) {
					t.Parallel()
					for _, g := range []*scripted{strict, only} {
						c := g.rich(t)
						c.Answers(free)
						o := outcomeOf(t, sh, c.Ask(sh, full, mode.Field))
						require.Equal(t, `["not", "a day"]`, o.Text)
						require.Empty(t, c.system(t), "nothing is added")
						require.Equal(t, map[string]any{"type": "json_schema", "json_schema": map[string]any{
							"name": "day", "description": "A day.", "strict": true, "schema": schema}}, c.Sent(t)["response_format"])
					}
				})
				t.Run(fmt.Sprintf("%s STRUCT-20 STRUCT-22 STRUCT-23 STRUCT-32 asked for in words %s %s", w.Clause, sh.Name,
					mode.Name), func(t *testing.T) {
					t.Parallel()
					c := object.rich(t)
					c.Answers(free)
					o := outcomeOf(t, sh, c.Ask(sh, full, mode.Field))
					require.Equal(t, `["not", "a day"]`, o.Text)
					require.Equal(t, map[string]any{"type": "json_object"}, c.Sent(t)["response_format"])
					require.Contains(t, c.system(t), daySchema)
					require.Contains(t, c.system(t), "JSON")
				})
				t.Run(fmt.Sprintf("%s STRUCT-26 the default name %s %s", w.Clause, sh.Name, mode.Name), func(t *testing.T) {
					t.Parallel()
					c := strict.rich(t)
					outcomeOf(t, sh, c.Ask(sh, w.Member(w.Schema(`"schema":{"type":"object"}`)), mode.Field))
					require.Equal(t, map[string]any{"type": "json_schema", "json_schema": map[string]any{
						"name": "response", "schema": map[string]any{"type": "object"}}}, c.Sent(t)["response_format"])
				})
				t.Run("STRUCT-33 STRUCT-32 cut short by the allowance "+w.Clause+" "+sh.Name+" "+mode.Name, func(t *testing.T) {
					t.Parallel()
					c := strict.rich(t)
					c.Answers(script(used(10, 5), "length", upstream.Text(`{"a":`)))
					o := outcomeOf(t, sh, c.Ask(sh, full, mode.Field))
					require.Equal(t, `{"a":`, o.Text)
					require.Equal(t, map[string]string{"chat": "length", "responses": "incomplete/max_output_tokens",
						"messages": "max_tokens"}[sh.Name], o.Finish)
				})
				t.Run("STRUCT-33 GAP-75 cut short by a stop sequence "+w.Clause+" "+sh.Name+" "+mode.Name, func(t *testing.T) {
					t.Parallel()
					c := strict.rich(t)
					c.Answers(script(used(10, 5), "stop", upstream.Text(`{"a":1}`)))
					stop := `"stop":["}"]`
					if sh.Name == "messages" {
						stop = `"stop_sequences":["}"]`
					}
					o := outcomeOf(t, sh, c.Ask(sh, full, stop, mode.Field))
					require.Equal(t, `{"a":1`, o.Text)
					require.Equal(t, map[string]string{"chat": "stop", "responses": "completed", "messages": "stop_sequence"}[sh.Name],
						o.Finish)
				})
			}
		}
	}
	t.Run("STRUCT-32 no field has the parsed JSON", func(t *testing.T) {
		t.Parallel()
		for _, sh := range shapes {
			c := strict.rich(t)
			c.Answers(script(used(10, 5), "stop", upstream.Text(`{"day":"Friday"}`)))
			a := c.Ask(sh, wishes(sh)[0].Member(wishes(sh)[0].Schema(`"schema":`+daySchema)))
			require.Equal(t, `{"day":"Friday"}`, sh.Text(a, t))
			require.Equal(t, 1, strings.Count(string(a.Raw), "Friday"))
		}
	})
}

// TestStructuredObject proves json_object and text, which two of the shapes have.
func TestStructuredObject(t *testing.T) {
	t.Parallel()
	gateways := map[string]*scripted{
		"object": startStructured(t, route{Name: "object", Offers: offersObject}),
		"strict": startStructured(t, route{Name: "strict", Offers: offersSchema}),
	}
	for _, sh := range shapes[:2] {
		for _, w := range wishes(sh) {
			for _, mode := range modes {
				for name, g := range gateways {
					t.Run(fmt.Sprintf("STRUCT-09 %s STRUCT-18 STRUCT-19 an object %s %s of %s", w.Clause, sh.Name, mode.Name, name),
						func(t *testing.T) {
							t.Parallel()
							c := g.rich(t)
							wish := w.Member(`{"type":"json_object"}`)
							outcomeOf(t, sh, c.Ask(sh, wish, mode.Field))
							require.Equal(t, map[string]any{"type": "json_object"}, c.Sent(t)["response_format"])
							require.Equal(t, objectLine, c.system(t))
							outcomeOf(t, sh, c.Post(sh.Path, sh.Body("PROMPT answer in Json", wish, mode.Field)))
							require.Empty(t, c.system(t), "it says JSON itself")
						})
				}
				t.Run(fmt.Sprintf("STRUCT-08 %s STRUCT-17 text is an ordinary reply %s %s", w.Clause, sh.Name, mode.Name),
					func(t *testing.T) {
						t.Parallel()
						c := gateways["strict"].rich(t)
						outcomeOf(t, sh, c.Ask(sh, mode.Field))
						plain := c.Sent(t)
						outcomeOf(t, sh, c.Ask(sh, w.Member(`{"type":"text"}`), mode.Field))
						require.Equal(t, plain, c.Sent(t))
					})
			}
		}
	}
	t.Run("STRUCT-19 one line more where there is a system prompt", func(t *testing.T) {
		t.Parallel()
		c := gateways["object"].rich(t)
		chat, responses := shapeOf("chat"), shapeOf("responses")
		outcomeOf(t, chat,
			c.Post(chat.Path,
				`{"model":"auto","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"PROMPT"}],`+
					`"response_format":{"type":"json_object"}}`))
		require.Equal(t, "Be brief.\n"+objectLine, c.system(t))
		outcomeOf(t, responses, c.Ask(responses, `"instructions":"Be brief."`, `"text":{"format":{"type":"json_object"}}`))
		require.Equal(t, "Be brief.\n"+objectLine, c.system(t))
		outcomeOf(t, responses, c.Ask(responses, `"instructions":"Use JSON."`, `"text":{"format":{"type":"json_object"}}`))
		require.Equal(t, "Use JSON.", c.system(t))
	})
}

// TestStructuredRules proves what is refused once it is on (E32), streamed and not, and that nothing is charged.
func TestStructuredRules(t *testing.T) {
	t.Parallel()
	g := startStructured(t, route{Name: "strict", Offers: offersSchema})
	const invalid, unsupported = "invalid_request_error", "unsupported_field"
	for _, sh := range posts {
		for _, w := range wishes(sh) {
			object := `"schema":{"type":"object"}`
			rows := []struct{ clause, format, code string }{
				{"STRUCT-24", w.Schema(`"schema":"x"`), invalid},
				{"STRUCT-24", w.Schema(`"schema":[]`), invalid},
				{"STRUCT-24", w.Schema(`"schema":null`), invalid},
				{"STRUCT-24", w.Schema(`"schema":5`), invalid},
				{"STRUCT-24 STRUCT-14 GAP-79", w.Schema(`"name":"n"`), invalid},
				{"STRUCT-25", w.Schema(object + `,"name":"` + strings.Repeat("n", 65) + `"`), invalid},
				{"STRUCT-25", w.Schema(object + `,"name":""`), invalid},
				{"STRUCT-25", w.Schema(object + `,"name":"a b"`), invalid},
				{"STRUCT-25", w.Schema(object + `,"name":"é"`), invalid},
				{"STRUCT-25", w.Schema(object + `,"name":5`), invalid},
				{"STRUCT-27", w.Schema(object + `,"description":5`), invalid},
				{"STRUCT-28", w.Schema(object + `,"strict":"true"`), invalid},
				{"STRUCT-29", `"json"`, invalid},
				{"STRUCT-29", `[]`, invalid},
				{"STRUCT-29", `{}`, invalid},
				{"STRUCT-30", `{"type":"grammar"}`, unsupported},
			}
			if sh.Name == "messages" {
				rows = append(rows, []struct{ clause, format, code string }{
					{"STRUCT-30", `{"type":"json_object"}`, unsupported}, {"STRUCT-30", `{"type":"text"}`, unsupported},
				}...)
			}
			for _, row := range rows {
				t.Run(fmt.Sprintf("%s %s of %s %s", row.clause, row.format, postName(sh), w.Clause), func(t *testing.T) {
					t.Parallel()
					c := g.rich(t)
					for _, mode := range modes {
						requireError(t, sh, c.Ask(sh, w.Member(row.format), mode.Field), 400, row.code)
					}
					c.RequireUntouched(t)
				})
			}
			t.Run(fmt.Sprintf("STRUCT-25 STRUCT-27 STRUCT-28 what is good, of %s %s", postName(sh), w.Clause),
				func(t *testing.T) {
					t.Parallel()
					c := g.rich(t)
					for _, members := range []string{`,"name":"` + strings.Repeat("n", 64) + `"`, `,"description":"d"`,
						`,"strict":true`, `,"strict":false`, `,"name":null,"strict":null`} {
						for _, mode := range modes {
							require.Equal(t, 200, c.Ask(sh, w.Member(w.Schema(object+members)), mode.Field).StatusCode, members)
						}
					}
				})
		}
	}
	chat, responses := shapeOf("chat"), shapeOf("responses")
	t.Run("STRUCT-10 json_schema is missing", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		for _, mode := range modes {
			requireError(t, chat, c.Ask(chat, `"response_format":{"type":"json_schema"}`, mode.Field), 400, invalid)
		}
		c.RequireUntouched(t)
	})
	for clause, both := range map[string]struct {
		shape    shape
		one, two string
	}{
		"STRUCT-13": {responses, `"text":{"format":{"type":"json_object"}}`, `"response_format":{"type":"json_object"}`},
		"STRUCT-16": {shapeOf("messages"), `"output_format":{"type":"json_schema","schema":{}}`,
			`"output_config":{"format":{"type":"json_schema","schema":{}}}`},
	} {
		t.Run(clause+" both fields", func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for _, mode := range modes {
				requireError(t, both.shape, c.Ask(both.shape, both.one, both.two, mode.Field), 400, invalid)
			}
			c.RequireUntouched(t)
			null := both.two[:strings.Index(both.two, ":")] + ":null"
			for _, mode := range modes {
				outcomeOf(t, both.shape, c.Ask(both.shape, both.one, null, mode.Field))
			}
		})
	}
}

// TestStructuredRoutes proves which routes can serve, and what it costs (GAP-78).
func TestStructuredRoutes(t *testing.T) {
	t.Parallel()
	none := startStructured(t, route{Name: "plain"})
	narrow := startStructured(t, route{Name: "plain"}, route{Name: "json", Window: 2000, Max: 1000, Offers: offersObject})
	both := startStructured(t, route{Name: "plain", Quality: 0.9}, route{Name: "json", Quality: 0.1, Offers: offersObject})
	object := startStructured(t, route{Name: "object", Offers: offersObject})
	for _, sh := range shapes {
		for _, w := range wishes(sh) {
			schema := w.Member(w.Schema(`"schema":` + daySchema))
			for _, mode := range modes {
				t.Run(fmt.Sprintf("STRUCT-31 no route offers JSON %s %s %s", w.Clause, sh.Name, mode.Name), func(t *testing.T) {
					t.Parallel()
					c, broke := none.rich(t), none.caller(t, 0)
					requireError(t, sh, c.Ask(sh, schema, mode.Field), 400, "unsupported_field")
					if sh.Name != "messages" {
						requireError(t, sh, c.Ask(sh, w.Member(`{"type":"json_object"}`), mode.Field), 400, "unsupported_field")
					}
					c.RequireUntouched(t)
					requireError(t, sh, broke.Ask(sh, schema, mode.Field), 402, "budget_exceeded")
					outcomeOf(t, sh, c.Ask(sh, mode.Field))
					if sh.Name != "messages" {
						outcomeOf(t, sh, c.Ask(sh, w.Member(`{"type":"text"}`), mode.Field))
					}
				})
				t.Run(fmt.Sprintf("STRUCT-31 GAP-78 none that offers JSON fits %s %s %s", w.Clause, sh.Name, mode.Name),
					func(t *testing.T) {
						t.Parallel()
						c := narrow.rich(t)
						requireError(t, sh, c.Ask(sh, schema, allowance(sh, 3000), mode.Field), 400, "unsupported_field")
						requireError(t, sh, c.Ask(sh, schema, allowance(sh, 300_000), mode.Field), 503, "feature_unavailable")
						c.RequireUntouched(t)
						outcomeOf(t, sh, c.Ask(sh, schema, allowance(sh, 500), mode.Field))
						require.Equal(t, "json", c.Route(t))
					})
				t.Run(fmt.Sprintf("STRUCT-31 only routes that offer JSON are tried %s %s %s", w.Clause, sh.Name, mode.Name),
					func(t *testing.T) {
						t.Parallel()
						c := both.rich(t)
						outcomeOf(t, sh, c.Post(sh.Path, sh.Body("PROMPT", `"model":"service/max"`, schema, mode.Field)))
						require.Equal(t, "json", c.Route(t))
						c.Answers(upstream.Refuse(upstream.ServerError()))
						requireError(t, sh, c.Ask(sh, schema, mode.Field), 502, "upstream_error")
						require.Len(t, c.Seen(), 2)
					})
				t.Run(fmt.Sprintf("STRUCT-34 BILL-07 the addition is held and charged %s %s %s", w.Clause, sh.Name, mode.Name),
					func(t *testing.T) {
						t.Parallel()
						held := func(fields ...string) int64 {
							c := object.rich(t)
							c.Blocked(script(used(90, 5), "stop", upstream.Text("{}")))
							done := c.Start(t, sh, append(fields, allowance(sh, 100), mode.Field)...)
							held := c.Balance().Held
							c.Upstream.Open(c.Mark)
							outcomeOf(t, sh, <-done)
							require.Equal(t, int64(90*300+5*1500), c.Credits*1_000_000-c.Net(), "what the route reports is charged")
							return held
						}
						require.Greater(t, held(schema)-held(), tokens.Text(daySchema)*300, "the schema, and the words around it")
					})
			}
		}
	}
	t.Run("GAP-80 CNT-02 the token count has the schema in it", func(t *testing.T) {
		t.Parallel()
		c := object.rich(t)
		sh := shapeOf("messages")
		plain := c.Count(t, sh.Body("PROMPT"))
		for _, w := range wishes(sh) {
			with := c.Count(t, sh.Body("PROMPT", w.Member(w.Schema(`"schema":`+daySchema))))
			require.Greater(t, with, plain+15)
		}
		off := startScripted(t, setup{}).rich(t)
		require.Equal(t, off.Count(t, sh.Body("hi")),
			off.Count(t, sh.Body("hi", `"output_format":`+`{"type":"json_schema","schema":`+daySchema+`}`)))
	})
}
