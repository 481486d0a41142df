// Package policy knows what of a request is screened.
package policy

import (
	"github.com/fareway/fareway/config/rules"
	"github.com/fareway/fareway/plugins/llm"
)

// Read puts everything that the model would read into a text: messages with their calls and results, tools, and the
// format of the reply. The texts of one message are one text, for that is what they become upstream.
func Read(t *rules.Text, req *llm.Request) {
	for i := range req.Messages {
		m := &req.Messages[i]
		for j := range m.Parts {
			if p := &m.Parts[j]; p.Call == nil {
				t.Add(p.Text.String())
			}
		}
		t.Break()
		for j := range m.Parts {
			if call := m.Parts[j].Call; call != nil {
				t.Add(call.Name)
				t.Break()
				t.AddJSON(call.Arguments.String())
				t.Break()
			}
		}
	}
	for i := range req.Tools {
		tool := &req.Tools[i]
		t.Add(tool.Name)
		t.Break()
		t.Add(tool.Description)
		t.Break()
		t.AddJSON(string(tool.Schema))
		t.Break()
	}
	if f := req.Format; f != nil {
		t.Add(f.Name)
		t.Break()
		t.Add(f.Description)
		t.Break()
		t.AddJSON(string(f.Schema))
		t.Break()
	}
}
