package verify

import (
	"net/http"

	"github.com/fareway/fareway/modules/verify/wire"
)

// opsCountChecks are about the token count.
func opsCountChecks() []opsCheck {
	return []opsCheck{
		{"CNT-01 CNT-04", "a query and a version change no count", standardGate, requireSameCount},
		{"CNT-02", "everything that is read counts", standardGate, requireCountGrows},
		{"CNT-02", "the token count has the schema in it (GAP-80)", objectGate, requireSchemaCounted},
	}
}

func requireSameCount(o *ops) {
	want := string(o.ask(count).Raw)
	for _, path := range []string{count.Path, "/messages/count_tokens", count.Path + "?beta=true"} {
		a := o.do(call{Path: path, Body: o.body(count), Header: http.Header{"Anthropic-Version": {"2023-06-01"}}})
		o.Equal(want, string(a.Raw), "the count at "+path)
	}
	o.Equal(0, len(o.calls()), "the number of calls to the route")
}

func requireCountGrows(o *ops) {
	user := `{"role":"user","content":"hi"}`
	hi := `"messages":[` + user + `]`
	least := o.count(hi)
	o.Equal(least, o.count(hi), "the count of the same body")
	o.Equal(least, o.count(hi, `"max_tokens":1,"temperature":0.5,"foo":"bar bar bar bar"`),
		"the count with what is not read")
	o.Equal(least, o.count(hi, messages.Wishes()[0].Member(flatDay)),
		"the count with a schema where structured output is off")
	call := `{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"look",` +
		`"input":{"q":"things of all kinds"}}]}`
	result := `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"nothing was found there"}]}`
	called := o.count(`"messages":[` + user + `,` + call + `]`)
	for more, n := range map[string]int64{
		"a longer text": o.count(`"messages":[{"role":"user","content":"hi there, how are you today?"}]`),
		"a system text": o.count(hi, `"system":"Answer in one short sentence."`),
		"a tool":        o.count(hi, weatherTool(messages)),
		"a call":        called,
		"a result":      o.count(`"messages":[`+user+`,`+call+`,`+result+`]`) - called + least,
	} {
		o.True(n > least+5, "the count with %s is %d, without it %d", more, n, least)
	}
	o.Equal(0, len(o.calls()), "the number of calls to the route")
}

// flatDay is a format with a schema.
const flatDay = `{"type":"json_schema","schema":` + wire.DaySchema + `}`

func requireSchemaCounted(o *ops) {
	plain := o.count()
	for _, w := range messages.Wishes() {
		with := o.count(w.Member(flatDay))
		o.True(with > plain+15, "the count with a schema is %d, without it %d", with, plain)
	}
}
