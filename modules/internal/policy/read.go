// Package policy knows what of a request is screened.
package policy

import (
	"github.com/fareway/fareway/config/rules"
	"github.com/fareway/fareway/plugins/llm"
)

// Read puts everything that the model would read into a search: messages with their calls and results, tools, the
// format of the reply, and the ids by which calls and results belong together. The texts of one message are one text,
// for that is what they become upstream.
func Read(t *rules.Search, req *llm.Request) { read(ruleText{t}, req) }

// Largest is the size of the largest text that Read reads at once, in bytes.
func Largest(req *llm.Request) int {
	var l largest
	read(&l, req)
	return l.most
}

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
	// Add adds a part of what somebody says.
	Add(text llm.String)
	// AddName adds a text that stands for itself.
	AddName(text string)
	AddJSON(text string)
	// AddID adds an identifier, which ends there.
	AddID(id string)
	// End ends a text, which somebody says.
	End(role string)
}

func read(t sink, req *llm.Request) {
	for i := range req.Messages {
		readMessage(t, &req.Messages[i])
	}
	for i := range req.Tools {
		tool := &req.Tools[i]
		readNamed(t, tool.Name, tool.Description, string(tool.Schema))
	}
	if f := req.Format; f != nil {
		readNamed(t, f.Name, f.Description, string(f.Schema))
	}
}

func readMessage(t sink, m *llm.Message) {
	role := string(m.Role)
	for j := range m.Parts {
		if p := &m.Parts[j]; p.Call == nil {
			t.Add(p.Text)
		}
	}
	t.End(role)
	if m.CallID != "" {
		t.AddID(m.CallID)
	}
	for j := range m.Parts {
		if call := m.Parts[j].Call; call != nil {
			t.AddName(call.Name)
			t.End(role)
			t.AddJSON(call.Arguments.String())
			t.End(role)
			if call.ID != "" {
				t.AddID(call.ID)
			}
		}
	}
}

// readNamed reads what a request says beside its messages.
func readNamed(t sink, name, description, schema string) {
	t.AddName(name)
	t.End(beside)
	t.AddName(description)
	t.End(beside)
	t.AddJSON(schema)
	t.End(beside)
}

type ruleText struct{ *rules.Search }

func (t ruleText) Add(text llm.String) {
	if inside, ok := text.Quoted(); ok {
		t.AddQuoted(inside)
		return
	}
	t.Search.Add(text.String())
}

func (t ruleText) End(string) { t.Break() }

// largest measures.
type largest struct{ piece, most int }

func (l *largest) add(n int) {
	l.piece += n
	l.most = max(l.most, l.piece)
}

func (l *largest) Add(text llm.String) { l.add(text.Size()) }
func (l *largest) AddName(text string) { l.add(len(text)) }
func (l *largest) AddJSON(text string) { l.add(len(text)) }
func (*largest) AddID(string)          {}
func (l *largest) End(string)          { l.piece = 0 }

// screenTexts gathers texts until there are too many.
type screenTexts struct {
	list []llm.ScreenText
	text []byte // that has not ended
	left int64  // bytes, negative when there are too many
}

func (t *screenTexts) Add(text llm.String) { t.AddName(text.String()) }

// AddID adds nothing: ids are made by chance, and a provider would judge them as text.
func (t *screenTexts) AddID(string) {}

func (t *screenTexts) AddName(text string) {
	if t.left -= int64(len(text)); t.left >= 0 {
		t.text = append(t.text, text...)
	}
}

func (t *screenTexts) AddJSON(text string) { t.AddName(rules.Unescaped(text)) }

func (t *screenTexts) End(role string) {
	if len(t.text) > 0 {
		t.list, t.text = append(t.list, llm.ScreenText{Role: role, Text: string(t.text)}), t.text[:0]
	}
}
