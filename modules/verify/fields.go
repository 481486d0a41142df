package verify

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/fareway/fareway/modules/verify/wire"
)

// fieldsTSV has a request a row (E31): the clauses that it proves, the shapes it is made in, whether any deployment is
// put to it or only gateways of the run's own, the code it is refused with or "reply", what it has beside the smallest
// request (an object's inside), and what the route gets of it: members of its request, null for one that must not be
// there, or "same" for what it gets of the smallest request. The words in capitals stand for what fieldWords says.
//
//go:embed fields.tsv
var fieldsTSV string

// fieldRow is a row of it.
type fieldRow struct {
	ids      []string
	shapes   []shape
	anywhere bool
	code     string // "" for a reply
	members  string
	route    string // what the route gets; "" if that is not looked at
	what     string
}

// refusedContent are the clauses that every refusal of media proves, but for those of the form of errors.
var refusedContent = []string{"MEDIA-01", "MEDIA-10", "MEDIA-11", "MEDIA-15", "ERR-14", "VER-10"}

var shapeWords = strings.NewReplacer("all", "chat,responses,messages", "posts", "chat,responses,messages,count")

var fieldRows = readFieldRows(fieldsTSV)

func readFieldRows(tsv string) []fieldRow {
	var rows []fieldRow
	for line := range strings.Lines(tsv) {
		cells := append(strings.Split(strings.TrimSuffix(line, "\n"), "\t"), "", "", "")
		if cells[0] == "clauses" {
			continue
		}
		r := fieldRow{anywhere: cells[2] == "any", members: cells[4], route: cells[5], what: cells[6]}
		for id := range strings.FieldsSeq(cells[0]) {
			if !strings.HasPrefix(id, "GAP-") { // decisions are no clauses
				r.ids = append(r.ids, id)
			}
		}
		for name := range strings.SplitSeq(shapeWords.Replace(cells[1]), ",") {
			if name == "count" {
				r.shapes = append(r.shapes, count)
				continue
			}
			r.shapes = append(r.shapes, wire.ShapeOf(name))
		}
		switch cells[3] {
		case "reply":
		case "invalid":
			r.code = invalid
		default:
			r.code = cells[3]
		}
		rows = append(rows, r)
	}
	return rows
}

// clauses are those that a row proves in a shape.
func (r fieldRow) clauses(s shape) []string {
	ids := slices.Clone(r.ids)
	if r.code == unsupportedContent {
		ids = append(ids, refusedContent...)
		switch {
		case s.Path == count.Path:
			ids = append(ids, "CNT-07", "MEDIA-13")
		case s.Name == "messages":
			ids = append(ids, "MEDIA-13")
		default:
			ids = append(ids, "MEDIA-12", "ERR-06")
		}
	}
	return ids
}

func (r fieldRow) title(s shape) string {
	return strings.Join(strings.Fields(s.Path+" with "+r.members+" "+r.what), " ")
}

// fieldWords are what words in capitals stand for in a row, by shape.
func fieldWords(s shape) *strings.Replacer {
	function := wire.Function{Name: "f", Description: "does f",
		Schema: `{"type":"object","properties":{"q":{"type":"integer"}}}`}
	call := map[string]string{
		"chat": `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",` +
			`"function":{"name":"f","arguments":"{\"q\":1}"}}]}`,
		"responses": `{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"q\":1}"}`,
		"messages":  `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{"q":1}}]}`,
	}[s.Name]
	declared := strings.TrimSuffix(strings.TrimPrefix(s.Tools(function), `"tools":[`), "]")
	return strings.NewReplacer("FUNCTION", declared, "CALL", call, "USER", `{"role":"user","content":`+quote(prompt)+`}`,
		"PROMPT", prompt, "IMAGE", imagePart(s),
		"AUDIO", `{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`)
}

// imagePart is an image as clients of the family write it.
func imagePart(s shape) string {
	return map[string]string{
		"chat":      `{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`,
		"responses": `{"type":"input_image","image_url":"https://x.example/a.png"}`,
		"messages":  `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`,
	}[s.Name]
}

// fieldChecks puts any deployment to the rows that are for any. Every other one is streamed: gateways of the run's own
// are asked in both ways.
func fieldChecks() []*Check {
	var checks []*Check
	for i, r := range fieldRows {
		if !r.anywhere {
			continue
		}
		for _, s := range r.shapes {
			ids := slices.DeleteFunc(r.clauses(s), func(id string) bool { return clause(id).Kind != API })
			if len(ids) == 0 {
				continue // only what the route gets shows them
			}
			checks = append(checks, check(strings.Join(ids, " "), r.title(s), func(t *T) {
				if slices.ContainsFunc(ids, isStructuredOff) {
					t.requireStructuredOff()
				}
				members := []string{fieldWords(s).Replace(r.members)}
				if !strings.Contains(r.members, `"stream":`) && r.code != "" && s.Path != count.Path {
					members = append(members, modes[i%2])
				}
				t.requireRow(s, r, t.ask(s, members...))
			}))
		}
	}
	return checks
}

// requireRow checks the answer to a row's request.
func (t *T) requireRow(s shape, r fieldRow, a *answer) {
	switch {
	case r.code == "" && a.Status != 200:
		t.unserved(s, a)
	case r.code == "":
	case r.code == modelNotFound:
		t.refused(s, a, 404, r.code)
	default:
		t.refused(s, a, 400, r.code)
	}
}

// isStructuredOff tells clauses that say what becomes of structured output where it is turned off.
func isStructuredOff(id string) bool { return id >= "STRUCT-01" && id <= "STRUCT-06" }

// requireStructuredOff ends the check where a deployment has turned structured output on: then the clauses of it off
// say nothing about it.
func (t *T) requireStructuredOff() {
	memo(t, "structured output", func() bool {
		if t.ask(chat, `"response_format":{"type":"text"}`).Status == 200 {
			t.Pendingf("structured output is turned on in this deployment")
		}
		return true
	})
}

// opsFieldRows makes each row's request on a gateway of the run's own, in JSON and streamed, and looks at what the
// route gets. What is refused is refused again, and reaches neither route nor money.
func opsFieldRows() []opsCheck {
	var checks []opsCheck
	for _, r := range fieldRows {
		for _, s := range r.shapes {
			checks = append(checks, opsCheck{strings.Join(r.clauses(s), " "), r.title(s), standardGate, func(o *ops) {
				before := o.balance()
				for _, mode := range append(modes, modes[0]) {
					members := []string{mode, fieldWords(s).Replace(r.members)}
					if r.members == "" || strings.Contains(r.members, `"stream":`) {
						members = members[:1]
						if r.members != "" {
							members = []string{fieldWords(s).Replace(r.members)}
						}
					}
					a := o.do(call{Path: s.Path, Body: s.Body(prompt, members...)})
					o.requireRow(s, r, a)
					if r.code == "" && s.Path != count.Path {
						o.Equal("Hello", s.OutcomeOf(o, a.Status, a.Header, a.Raw).Text, "the text of the reply")
						o.requireRoute(s, r, mode)
					}
				}
				if r.code != "" {
					o.untouched(before)
				}
			}})
		}
	}
	return checks
}

// requireRoute checks what the route got of a row's request, the latest one.
func (o *ops) requireRoute(s shape, r fieldRow, mode string) {
	got := o.sentBody()
	if r.route == "same" {
		o.Equal(200, o.do(call{Path: s.Path, Body: s.Body(prompt, mode)}).Status, "the status of the smallest request")
		o.Equal(any(o.sentBody()), any(got), "what the route got")
		return
	}
	want, err := wire.Decode([]byte("{" + fieldWords(chat).Replace(r.route) + "}"))
	o.True(err == nil, "the row's route is no JSON: %v", err)
	for name, value := range want {
		if value == nil {
			_, there := got[name]
			o.True(!there, "the route got %s: %s", name, brief(got[name]))
			continue
		}
		o.Equal(value, got[name], "the route's "+name)
	}
}
