package verify

import (
	"strconv"
	"strings"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// wish is one way to ask for structured output in a shape.
type wish struct {
	ids    string
	shape  shape
	format func(format string) string // the member, from the value of the format
	schema func(fields string) string // a format of type json_schema, from the fields beside its type
}

func wishes() []wish {
	nested := func(f string) string { return `{"type":"json_schema","json_schema":{` + f + `}}` }
	flat := func(f string) string { return `{"type":"json_schema",` + f + `}` }
	return []wish{
		{"STRUCT-10", chat, func(f string) string { return `"response_format":` + f }, nested},
		{"STRUCT-11", responses, func(f string) string { return `"text":{"format":` + f + `}` }, flat},
		{"STRUCT-12", responses, func(f string) string { return `"response_format":` + f }, nested},
		{"STRUCT-14", messages, func(f string) string { return `"output_format":` + f }, flat},
		{"STRUCT-15", messages, func(f string) string { return `"output_config":{"format":` + f + `}` }, flat},
	}
}

const daySchema = `{"type":"object","properties":{"day":{"type":"string"}},"required":["day"],` +
	`"additionalProperties":false}`

// system is the text of the system messages that the route got.
func (o *ops) system() string {
	text := ""
	for _, m := range o.sent().Messages {
		if m.Role == "system" {
			text += m.Text
		}
	}
	return text
}

func opsStructChecks() []opsCheck {
	checks := []opsCheck{
		{"STRUCT-08 STRUCT-17 STRUCT-07", "format text asks for an ordinary reply", strictGate, func(o *ops) {
			for _, w := range wishes()[:3] {
				o.ok(w.shape, o.ask(w.shape))
				plain := o.sentBody()
				o.ok(w.shape, o.ask(w.shape, w.format(`{"type":"text"}`)))
				o.Equal(any(plain), any(o.sentBody()), "what the route got")
			}
		}},
		{"STRUCT-09 STRUCT-18 STRUCT-19", "format json_object, and the line that it adds", objectGate, func(o *ops) {
			for _, w := range wishes()[:3] {
				o.ok(w.shape, o.ask(w.shape, w.format(`{"type":"json_object"}`)))
				o.Equal("json_object", str(at(o.sentBody(), "response_format", "type")), "the route's format")
				line := o.system()
				o.True(line != "" && !strings.Contains(line, "\n") && strings.Contains(strings.ToLower(line), "json"),
					"the system text is %q", line)
				o.ok(w.shape, o.ask(w.shape, w.format(`{"type":"json_object"}`),
					quote(w.shape.input)+":"+w.shape.said("Answer in Json.")))
				o.Equal("", o.system(), "the system text beside a message with the word")
			}
		}},
		{"STRUCT-13 STRUCT-16", "two formats at once", strictGate, func(o *ops) {
			for _, i := range []int{1, 3} {
				a, b := wishes()[i], wishes()[i+1]
				fields := `"name":"day","schema":` + daySchema
				o.refused(a.shape, o.ask(a.shape, a.format(a.schema(fields)), b.format(b.schema(fields))), 400, invalid)
				o.ok(a.shape, o.ask(a.shape, a.format(a.schema(fields)), b.format("null")))
			}
		}},
		{"STRUCT-30", "other types", strictGate, func(o *ops) {
			for _, w := range wishes() {
				types := []string{"grammar"}
				if w.shape.Name == "messages" {
					types = append(types, "json_object", "text")
				}
				for _, kind := range types {
					o.refused(w.shape, o.ask(w.shape, w.format(`{"type":"`+kind+`"}`)), 400, unsupported)
				}
			}
		}},
		{"STRUCT-29", "formats that are malformed", strictGate, func(o *ops) {
			before := o.balance()
			for _, bad := range []string{`"json"`, `[]`, `{}`} {
				o.refused(chat, o.ask(chat, `"response_format":`+bad), 400, invalid)
			}
			o.refused(chat, o.ask(chat, `"response_format":{"type":"json_schema"}`), 400, invalid)
			o.untouched(before)
		}},
		{"STRUCT-31", "no route offers JSON", hastyGate, func(o *ops) {
			before := o.balance()
			for _, w := range wishes() {
				o.refused(w.shape, o.ask(w.shape, w.format(w.schema(`"name":"day","schema":`+daySchema))), 400, unsupported)
			}
			o.refused(chat, o.ask(chat, `"response_format":{"type":"json_object"}`), 400, unsupported)
			o.untouched(before)
			o.ok(chat, o.ask(chat, `"response_format":{"type":"text"}`))
		}},
	}
	for _, w := range wishes() {
		schema := w.format(w.schema(`"name":"day","description":"A day.","strict":true,"schema":` + daySchema))
		checks = append(checks,
			opsCheck{w.ids + " STRUCT-21", "a schema on a route that enforces it: " + schema, strictGate, func(o *ops) {
				o.ok(w.shape, o.ask(w.shape, schema))
				format := at(o.sentBody(), "response_format", "json_schema")
				o.Equal(any(true), at(format, "strict"), "the route's strict")
				want, err := decode([]byte(daySchema))
				o.True(err == nil, "the suite's schema is no JSON: %v", err)
				o.Equal(any(want), at(format, "schema"), "the route's schema")
				o.Equal("", o.system(), "the system text")
			}},
			opsCheck{w.ids + " STRUCT-22 STRUCT-20 STRUCT-23", "a schema on a route that does not: " + schema, objectGate,
				func(o *ops) {
					o.answersText("no JSON at all")
					o.Equal("no JSON at all", w.shape.text(o.ok(w.shape, o.ask(w.shape, schema))), "the text")
					o.Equal("json_object", str(at(o.sentBody(), "response_format", "type")), "the route's format")
					o.True(strings.Contains(o.system(), `"additionalProperties"`), "the system text is %q", o.system())
				}},
			opsCheck{"STRUCT-34", "what a schema adds is held and charged: " + schema, objectGate, func(o *ops) {
				const words = 24_000 // each at least one token; holds are seen in whole credits
				text := strings.Repeat("some words ", words/2)
				long := w.format(w.schema(`"name":"day","schema":{"type":"object","description":` + quote(text) + `}`))
				plain := o.whileBlocked(w.shape)
				before := o.balance()
				added := o.whileBlocked(w.shape, long).Reserved - plain.Reserved
				least := int64(words*inputPrice/microcentsPerCredit - 1) // both holds are rounded
				o.True(added >= least, "the hold grows by %d credits, at least %d are due", added, least)
				o.True(strings.Contains(o.system(), text[:100]), "the route did not get the schema")
				o.Equal(int64(helloCost), before.net()-o.balance().net(),
					"what NET fell by: the route's usage has the addition in it")
			}},
			opsCheck{"STRUCT-32 STRUCT-33", "JSON is text: " + schema, strictGate, func(o *ops) {
				o.answersText(`{"day":"Mon`, `day"}`)
				v := o.ok(w.shape, o.ask(w.shape, schema))
				o.Equal(`{"day":"Monday"}`, w.shape.text(v), "the text")
				v = o.ok(w.shape, o.ask(w.shape, schema, quote(w.shape.stop)+`:["}"]`))
				o.Equal(`{"day":"Monday"`, w.shape.text(v), "the text before a stop sequence")
				o.answers(script(upstream.Usage{Prompt: 10, Completion: 5}, "length", upstream.Text(`{"day":"Mon`)))
				v = o.ok(w.shape, o.ask(w.shape, schema))
				o.Equal(w.shape.cut(), w.shape.finish(v), "the end of a reply that was cut")
				o.Equal(`{"day":"Mon`, w.shape.text(v), "the text of a reply that was cut")
			}})
		for field, bad := range map[string][]string{
			"STRUCT-24 schema":      {`"x"`, `[]`, `null`, `5`},
			"STRUCT-25 name":        {quote(strings.Repeat("a", 65)), `""`, `"a b"`, `"é"`, `5`},
			"STRUCT-27 description": {`5`},
			"STRUCT-28 strict":      {`"true"`},
		} {
			id, name, _ := strings.Cut(field, " ")
			checks = append(checks, opsCheck{id, name + " of a schema", strictGate, func(o *ops) {
				good := map[string]string{"name": quote(strings.Repeat("a", 64)), "description": `"x"`, "strict": "false",
					"schema": daySchema}
				send := func(value string) *answer {
					fields := `"name":"n","schema":` + daySchema
					return o.ask(w.shape, w.format(w.withField(fields, name, value)))
				}
				o.ok(w.shape, send(good[name]))
				for _, value := range bad {
					o.refused(w.shape, send(value), 400, invalid)
				}
			}})
		}
		if w.shape.Name != "messages" {
			checks = append(checks, opsCheck{"STRUCT-26", "a schema without a name", strictGate, func(o *ops) {
				o.ok(w.shape, o.ask(w.shape, w.format(w.schema(`"schema":`+daySchema))))
				o.Equal("response", str(at(o.sentBody(), "response_format", "json_schema", "name")), "the route's name")
			}})
		}
	}
	return checks
}

// withField is the wish's schema format with one field replaced.
func (w wish) withField(fields, name, value string) string {
	inside := object(fields, quote(name)+":"+value)
	return w.schema(strings.TrimSuffix(strings.TrimPrefix(inside, "{"), "}"))
}

func opsSpecialChecks() []opsCheck {
	ask := func(o *ops, s shape, text, route string, given, sent int) {
		body := o.without(s, s.allowance, quote(s.input)+":"+s.said(text))
		if given > 0 {
			body = o.body(s, quote(s.input)+":"+s.said(text), quote(s.allowance)+":"+strconv.Itoa(given))
		}
		o.ok(s, o.do(call{Path: s.Path, Body: body}))
		o.Equal(route, o.sent().Model, "the route")
		o.Equal(int64(sent), o.sent().MaxTokens, "the allowance that was sent")
	}
	const drawing, scene = "Draw a pelican on a bicycle as SVG.", "Build a 3D scene with a spinning cube."
	long := strings.Repeat("some words ", 12_000) // about 24,000 tokens
	return []opsCheck{
		onEach("ALLOW-13 ALLOW-15", "a long request", specialGate, func(o *ops, s shape) {
			ask(o, s, long, "long", 100, 4096)
			ask(o, s, long, "long", 4096, 4096)
			ask(o, s, long, "long", 6000, 6000)
		}),
		onEach("ALLOW-14 ALLOW-15", "graphics", specialGate, func(o *ops, s shape) {
			ask(o, s, drawing, "graphics", 200, 4096)
			ask(o, s, scene, "graphics", 200, 4096)
			ask(o, s, drawing, "graphics", 6000, 6000)
		}),
		onEach("ALLOW-16 ALLOW-07", "an ordinary request", specialGate, func(o *ops, s shape) {
			ask(o, s, "Hello.", "small", 100, 100)
			ask(o, s, "Hello.", "small", 0, 8192)
		}),
		onEach("ALLOW-18 ALLOW-19", "the charge and the hold of a raised allowance", specialGate, func(o *ops, s shape) {
			body := o.body(s, quote(s.input)+":"+s.said(drawing), quote(s.allowance)+":100")
			c, b := o.liveBlocked(s, body)
			hold := o.balance().Reserved * microcentsPerCredit
			a := o.release(c, b)
			o.True(hold >= 4096*outputPrice && hold < 5096*outputPrice, "the hold is %d microcents", hold)
			o.Equal(int64(helloCost), o.billed(at(a.JSON(o.T), "usage")), "billed_microcents")
		}),
	}
}
