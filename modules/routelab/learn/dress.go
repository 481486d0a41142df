package learn

import (
	"encoding/json"
	"io/fs"
	"math/rand/v2"
	"strings"

	"github.com/fareway/fareway/plugins/llm"
)

// Dresses are what programs put around a question.
type Dresses struct {
	System, Before, Behind, Wrap []Dress
	Plain                        []Dress // none: questions with forms that frames have as well
	Tools                        []ToolSet
	History                      []History
}

// Dress is one text of a make of program.
type Dress struct {
	ID   string `json:"id"`
	Make string `json:"make"`
	Lang string `json:"lang"`
	Text string `json:"text"`
}

// ToolSet is tools that a make of program declares.
type ToolSet struct {
	ID    string `json:"id"`
	Make  string `json:"make"`
	Tools []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"tools"`
}

// History is the beginning of a conversation about something else.
type History struct {
	ID    string `json:"id"`
	Make  string `json:"make"`
	Turns []struct {
		Role  string `json:"role"`
		Text  string `json:"text"`
		Calls []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"calls"`
	} `json:"turns"`
}

func (d *Dresses) read(dir fs.FS) error {
	if _, err := fs.Stat(dir, "dress"); err != nil {
		return nil //nolint:nilerr // prompts without dresses are good enough
	}
	for file, list := range map[string]*[]Dress{"system": &d.System, "before": &d.Before, "behind": &d.Behind,
		"wrap": &d.Wrap, "plain": &d.Plain} {
		if err := eachLine(dir, "dress/"+file+".jsonl", func(one *Dress) error {
			*list = append(*list, *one)
			return nil
		}); err != nil {
			return err
		}
	}
	if err := eachLine(dir, "dress/tools.jsonl", func(one *ToolSet) error {
		d.Tools = append(d.Tools, *one)
		return nil
	}); err != nil {
		return err
	}
	return eachLine(dir, "dress/history.jsonl", func(one *History) error {
		d.History = append(d.History, *one)
		return nil
	})
}

// Request is one that a question comes in.
type Request = llm.Request

// Size is how many bytes of text and of tools a request has.
func Size(req *Request) (n int) {
	for i := range req.Messages {
		for _, part := range req.Messages[i].Parts {
			n += len(part.Text.String())
		}
	}
	for i := range req.Tools {
		n += len(req.Tools[i].Schema) + len(req.Tools[i].Description)
	}
	return n
}

// Outfits are the ways in which a question comes.
var Outfits = []string{"bare", "tools", "agent", "page", "history", "context"}

// Dresser dresses questions in makes that training has seen, or in those that are kept out of it.
type Dresser struct {
	d      *Dresses
	held   bool
	random *rand.Rand
}

// Dresser makes one; it goes by the seed alone.
func (d *Dresses) Dresser(held bool, seed uint64) *Dresser {
	return &Dresser{d, held, rand.New(rand.NewPCG(seed, 11))}
}

// pick is one of a list whose make is on the dresser's side.
func pick[T any](w *Dresser, list []T, of func(*T) string) *T {
	for range 1000 {
		one := &list[w.random.IntN(len(list))]
		if heldOut(of(one)) == w.held {
			return one
		}
	}
	return &list[0]
}

func (w *Dresser) text(list []Dress) string {
	return pick(w, list, func(d *Dress) string { return d.Make }).Text
}

func user(text string) llm.Message {
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(text)}}
}

// Dress puts a question in an outfit.
func (w *Dresser) Dress(question, outfit string) *llm.Request {
	req := &llm.Request{}
	system := func() {
		text := w.text(w.d.System)
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text(text)}})
	}
	tools := func() {
		for _, t := range pick(w, w.d.Tools, func(s *ToolSet) string { return s.Make }).Tools {
			req.Tools = append(req.Tools, llm.Tool{Name: t.Name, Description: t.Description, Schema: t.Parameters})
		}
	}
	switch outfit {
	case "tools":
		tools()
	case "agent":
		system()
		tools()
		before := w.text(w.d.Before)
		switch w.random.IntN(3) {
		case 0:
			req.Messages = append(req.Messages, user(before))
		case 1:
			question = before + "\n\n" + question
		default:
			m := user(before)
			m.Parts = append(m.Parts, llm.Text(question))
			if w.random.IntN(2) == 0 {
				m.Parts = append(m.Parts, llm.Text(w.text(w.d.Behind)))
			}
			req.Messages = append(req.Messages, m)
			return req
		}
		if w.random.IntN(3) == 0 {
			question = strings.ReplaceAll(w.text(w.d.Wrap), "{question}", question)
		}
	case "page":
		system()
		if w.random.IntN(2) == 0 {
			question = strings.ReplaceAll(w.text(w.d.Wrap), "{question}", question)
		}
	case "history":
		for _, t := range pick(w, w.d.History, func(h *History) string { return h.Make }).Turns {
			m := llm.Message{Role: llm.Role(t.Role), Parts: []llm.Part{llm.Text(t.Text)}}
			for _, c := range t.Calls {
				m.Parts = append(m.Parts, llm.Part{Call: &llm.ToolCall{ID: "c", Name: c.Name}})
			}
			req.Messages = append(req.Messages, m)
		}
	case "context":
		if w.random.IntN(2) == 0 {
			question = w.text(w.d.Before) + "\n\n" + question
		}
		question += "\n\n" + w.text(w.d.Behind)
	}
	req.Messages = append(req.Messages, user(question))
	return req
}
