package verify

import (
	"strings"

	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// objectLine is what a route is told where nothing in the request speaks of JSON (STRUCT-19).
const objectLine = "Respond only with a JSON object."

const objectFormat = `{"type":"json_object"}`

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

// requireFormat checks the format that the route got, and the system text, of which said must be a part and, where it
// is "", all.
func (o *ops) requireFormat(format string, said ...string) {
	want, err := wire.Decode([]byte(format))
	o.True(err == nil, "the suite's format is no JSON: %v", err)
	o.Equal(any(want), o.sentBody()["response_format"], "the route's format")
	system := o.system()
	if len(said) == 0 {
		o.Equal("", system, "the system text")
	}
	for _, part := range said {
		o.True(strings.Contains(system, part), "the system text %q has no %q", system, part)
	}
}

// wishCheck is a check of a way to ask for structured output.
func wishCheck(w wire.Wish, ids, does string, kind gateKind, run func(*ops, wire.Wish)) opsCheck {
	return opsCheck{ids, does + ": " + w.Member("x"), kind, func(o *ops) { run(o, w) }}
}

func opsStructChecks() []opsCheck {
	checks := []opsCheck{
		{"STRUCT-19", "one line more where there is a system prompt", objectGate, requireOneLineMore},
		{"STRUCT-13 STRUCT-16", "two formats at once", strictGate, requireOneFormat},
		{"STRUCT-10 STRUCT-29", "json_schema is missing", strictGate, func(o *ops) {
			o.refusedFree(chat, 400, invalid, `"response_format":{"type":"json_schema"}`)
		}},
		{"STRUCT-31", "no route offers JSON", hastyGate, requireNoJSONRoute},
	}
	for _, w := range wire.Wishes {
		checks = append(checks,
			wishCheck(w, w.Clause+" STRUCT-21 STRUCT-07 STRUCT-20 STRUCT-23 STRUCT-32", "a schema on a route that enforces it",
				strictGate, requireSchemaSent),
			wishCheck(w, w.Clause+" STRUCT-21 STRUCT-07 STRUCT-20 STRUCT-23 STRUCT-32",
				"a schema on a route that offers nothing else", schemaGate, requireSchemaSent),
			wishCheck(w, w.Clause+" STRUCT-22 STRUCT-20 STRUCT-23 STRUCT-32", "a schema on a route that does not enforce it",
				objectGate, requireSchemaSaid),
			wishCheck(w, "STRUCT-26", "a schema without a name", strictGate, requireDefaultName),
			wishCheck(w, "STRUCT-32 STRUCT-33", "JSON is text", strictGate, requireJSONIsText),
			wishCheck(w, "STRUCT-34", "what a schema adds is held and charged", objectGate, requireSchemaHeld),
			wishCheck(w, "STRUCT-24 STRUCT-25 STRUCT-27 STRUCT-28 STRUCT-29 STRUCT-30", "formats that are malformed",
				strictGate,
				requireBadFormats),
			wishCheck(w, "STRUCT-25 STRUCT-27 STRUCT-28", "formats that are good", strictGate, requireGoodFormats))
		if w.Shape.Name == "messages" {
			continue
		}
		checks = append(checks,
			wishCheck(w, "STRUCT-08 STRUCT-17 STRUCT-07", "format text asks for an ordinary reply", strictGate,
				requireTextPlain),
			wishCheck(w, "STRUCT-09 STRUCT-18 STRUCT-19", "format json_object", objectGate, requireObjectAsked),
			wishCheck(w, "STRUCT-09 STRUCT-18 STRUCT-19", "format json_object where schemas are enforced", strictGate,
				requireObjectAsked))
	}
	return checks
}

// fullSchema is a format with all that one can have.
func fullSchema(w wire.Wish) string {
	return w.Member(w.Schema(`"name":"day","description":"A day.","strict":true,"schema":` + wire.DaySchema))
}

// answersFreely makes the route say JSON that is nothing like the schema.
func (o *ops) answersFreely() { o.answersText(`["not", `, `"a day"]`) }

func requireSchemaSent(o *ops, w wire.Wish) {
	o.answersFreely()
	o.Equal(`["not", "a day"]`, o.both(w.Shape, fullSchema(w)).Text, "the text")
	o.requireFormat(`{"type":"json_schema","json_schema":{"name":"day","description":"A day.","strict":true,"schema":` +
		wire.DaySchema + `}}`)
}

func requireSchemaSaid(o *ops, w wire.Wish) {
	o.answersFreely()
	o.Equal(`["not", "a day"]`, o.both(w.Shape, fullSchema(w)).Text, "the text")
	o.requireFormat(objectFormat, wire.DaySchema, "JSON")
}

func requireDefaultName(o *ops, w wire.Wish) {
	o.both(w.Shape, w.Member(w.Schema(`"schema":{"type":"object"}`)))
	o.requireFormat(`{"type":"json_schema","json_schema":{"name":"response","schema":{"type":"object"}}}`)
}

func requireJSONIsText(o *ops, w wire.Wish) {
	o.answersText(`{"day":"Fri`, `day"}`)
	a := o.ask(w.Shape, fullSchema(w))
	o.Equal(`{"day":"Friday"}`, w.Shape.Text(o.ok(w.Shape, a)), "the text")
	o.Equal(1, strings.Count(string(a.Raw), "Friday"), "how often the reply has the value")

	v := o.both(w.Shape, fullSchema(w), stopMember(w.Shape, "}")) // GAP-75
	o.Equal(`{"day":"Friday"`, v.Text, "the text before a stop sequence")
	o.Equal(w.Shape.Ended("matched"), v.Finish, "the end of the reply at a stop sequence")

	o.answers(script(upstream.Usage{Prompt: 10, Completion: 5}, "length", upstream.Text(`{"day":"Mon`)))
	v = o.both(w.Shape, fullSchema(w))
	o.Equal(w.Shape.Ended("length"), v.Finish, "the end of a reply that was cut")
	o.Equal(`{"day":"Mon`, v.Text, "the text of a reply that was cut")
}

func requireSchemaHeld(o *ops, w wire.Wish) {
	const words = 24_000 // each at least one token; holds are seen in whole credits
	text := strings.Repeat("some words ", words/2)
	long := w.Member(w.Schema(`"name":"day","schema":{"type":"object","description":` + quote(text) + `}`))
	plain := o.whileBlocked(w.Shape)
	before := o.balance()
	added := o.whileBlocked(w.Shape, long).Reserved - plain.Reserved
	least := int64(words*inputPrice/microcentsPerCredit - 1) // both holds are rounded
	o.True(added >= least, "the hold grows by %d credits, at least %d are due", added, least)
	o.True(strings.Contains(o.system(), text[:100]), "the route did not get the schema")
	o.Equal(int64(helloCost), before.net()-o.balance().net(),
		"what NET fell by: the route's usage has the addition in it")
}

// badFormat is a format that is refused.
type badFormat struct{ clause, format, code string }

// badFormats are those of a wish (E32).
func badFormats(w wire.Wish) []badFormat {
	object := `"schema":{"type":"object"}`
	bad := []badFormat{
		{"STRUCT-24", w.Schema(`"schema":"x"`), invalid},
		{"STRUCT-24", w.Schema(`"schema":[]`), invalid},
		{"STRUCT-24", w.Schema(`"schema":null`), invalid},
		{"STRUCT-24", w.Schema(`"schema":5`), invalid},
		{"STRUCT-24", w.Schema(`"name":"n"`), invalid}, // GAP-79
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
	if w.Shape.Name == "messages" {
		bad = append(bad, badFormat{"STRUCT-30", objectFormat, unsupported},
			badFormat{"STRUCT-30", `{"type":"text"}`, unsupported})
	}
	return bad
}

// asked are the shapes that a wish can be made in: the token count is asked as messages are.
func asked(w wire.Wish) []shape {
	if w.Shape.Name == "messages" {
		return []shape{w.Shape, count}
	}
	return []shape{w.Shape}
}

func requireBadFormats(o *ops, w wire.Wish) {
	for _, s := range asked(w) {
		for _, bad := range badFormats(w) {
			o.refusedFree(s, 400, bad.code, w.Member(bad.format))
		}
	}
}

func requireGoodFormats(o *ops, w wire.Wish) {
	for _, s := range asked(w) {
		for _, fields := range []string{`,"name":"` + strings.Repeat("n", 64) + `"`, `,"description":"d"`, `,"strict":true`,
			`,"strict":false`, `,"name":null,"strict":null`} {
			for _, mode := range modes {
				a := o.ask(s, w.Member(w.Schema(`"schema":{"type":"object"}`+fields)), mode)
				o.Equal(200, a.Status, "the status with "+fields)
			}
		}
	}
}

func requireTextPlain(o *ops, w wire.Wish) {
	for _, mode := range modes {
		o.Equal(200, o.ask(w.Shape, mode).Status, "the status")
		plain := o.sentBody()
		o.Equal(200, o.ask(w.Shape, mode, w.Member(`{"type":"text"}`)).Status, "the status")
		o.Equal(any(plain), any(o.sentBody()), "what the route got")
	}
}

func requireObjectAsked(o *ops, w wire.Wish) {
	o.both(w.Shape, w.Member(objectFormat))
	o.requireFormat(objectFormat, objectLine)
	o.Equal(objectLine, o.system(), "the system text")
	o.both(w.Shape, w.Member(objectFormat), quote(w.Shape.Input)+":"+w.Shape.Said("Answer in Json."))
	o.requireFormat(objectFormat)
}

func requireOneLineMore(o *ops) {
	for _, tc := range []struct {
		shape         shape
		members, want string
	}{
		{chat, `"response_format":` + objectFormat +
			`,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello."}]`, "Be brief.\n" +
			objectLine},
		{responses, `"instructions":"Be brief.","text":{"format":` + objectFormat + `}`, "Be brief.\n" + objectLine},
		{responses, `"instructions":"Use JSON.","text":{"format":` + objectFormat + `}`, "Use JSON."},
	} {
		o.ok(tc.shape, o.ask(tc.shape, tc.members))
		o.Equal(tc.want, o.system(), "the system text")
	}
}

// requireOneFormat asks in both ways of a shape at once; null is no wish.
func requireOneFormat(o *ops) {
	for _, s := range []shape{responses, messages} {
		a, b := s.Wishes()[0], s.Wishes()[1]
		fields := `"name":"day","schema":` + wire.DaySchema
		o.refusedFree(s, 400, invalid, a.Member(a.Schema(fields)), b.Member(b.Schema(fields)))
		o.both(s, a.Member(a.Schema(fields)), b.Member("null"))
	}
}

func requireNoJSONRoute(o *ops) {
	broke := o.customer(0)
	for _, w := range wire.Wishes {
		schema := w.Member(w.Schema(`"name":"day","schema":` + wire.DaySchema))
		o.refusedFree(w.Shape, 400, unsupported, schema)
		for _, mode := range modes {
			a := broke.ask(w.Shape, schema, mode)
			o.Equal(402, a.Status, "the status at a balance of 0")
			o.errorForm(w.Shape, a, "budget_exceeded")
		}
		if w.Shape.Name != "messages" {
			o.refusedFree(w.Shape, 400, unsupported, w.Member(objectFormat))
		}
	}
	for _, w := range wire.Wishes {
		o.both(w.Shape)
		if w.Shape.Name != "messages" {
			o.both(w.Shape, w.Member(`{"type":"text"}`))
		}
	}
}
