// Package policy knows what of a request is screened.
package policy

import (
	"github.com/fareway/fareway/config/rules"
	"github.com/fareway/fareway/plugins/llm"
)

// Read puts everything that the model would read into a text: messages with their calls and results, tools, and the
// format of the reply. The texts of one message are one text, for that is what they become upstream.
func Read(t *rules.Text, req *llm.Request) { read(ruleText{t}, req) }

// Texts are what Read reads, for somebody else to judge. ok is false where they have more than so many bytes.
func Texts(req *llm.Request, most int64) (texts []llm.ScreenText, ok bool) {
	t := screenTexts{left: most}
	read(&t, req)
	return t.list, t.left >= 0
}

// beside is the role of what a request says beside its messages.
const beside = "request"

// sink takes what the model would read.
type sink interface {
	Add(text string)
	AddJSON(text string)
	// End ends a text, which somebody says.
	End(role string)
}

func read(t sink, req *llm.Request) {
	for i := range req.Messages {
		m := &req.Messages[i]
		role := string(m.Role)
		for j := range m.Parts {
			if p := &m.Parts[j]; p.Call == nil {
				t.Add(p.Text.String())
			}
		}
		t.End(role)
		for j := range m.Parts {
			if call := m.Parts[j].Call; call != nil {
				t.Add(call.Name)
				t.End(role)
				t.AddJSON(call.Arguments.String())
				t.End(role)
			}
		}
	}
	for i := range req.Tools {
		tool := &req.Tools[i]
		t.Add(tool.Name)
		t.End(beside)
		t.Add(tool.Description)
		t.End(beside)
		t.AddJSON(string(tool.Schema))
		t.End(beside)
	}
	if f := req.Format; f != nil {
		t.Add(f.Name)
		t.End(beside)
		t.Add(f.Description)
		t.End(beside)
		t.AddJSON(string(f.Schema))
		t.End(beside)
	}
}

type ruleText struct{ *rules.Text }

func (t ruleText) End(string) { t.Break() }

// screenTexts gathers texts until there are too many.
type screenTexts struct {
	list []llm.ScreenText
	text []byte // that has not ended
	left int64  // bytes, negative when there are too many
}

func (t *screenTexts) Add(text string) {
	if t.left -= int64(len(text)); t.left >= 0 {
		t.text = append(t.text, text...)
	}
}

func (t *screenTexts) AddJSON(text string) { t.Add(rules.Unescaped(text)) }

func (t *screenTexts) End(role string) {
	if len(t.text) > 0 {
		t.list, t.text = append(t.list, llm.ScreenText{Role: role, Text: string(t.text)}), t.text[:0]
	}
}
