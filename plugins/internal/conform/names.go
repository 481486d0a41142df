package conform

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fareway/fareway/plugins/llm"
)

// Names are what the upstream's names of tools are for the client, where these differ; nil for none.
type Names map[string]string

// Client takes an event of the reply and gives the calls in it the client's names.
func (n Names) Client(ev llm.Event) llm.Event {
	if ev.Kind == llm.EventToolCall {
		if name, mapped := n[ev.Name]; mapped {
			ev.Name = name
		}
	}
	return ev
}

// apart is a name that fits and tells s apart from others: its beginning, and a sum of it and of n.
func (f form) apart(s string, n int) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(s)) // never fails
	if n > 0 {
		_, _ = sum.Write([]byte{0, byte(n), byte(n >> 8), byte(n >> 16)})
	}
	const digits = 16
	mark := strconv.FormatUint(sum.Sum64(), digits)
	mark = strings.Repeat("0", digits-len(mark)) + mark
	if f.most > 0 && f.most <= digits {
		const base = 36 // which leaves more in fewer
		mark = strings.Repeat("0", digits) + strconv.FormatUint(sum.Sum64(), base)
		return mark[len(mark)-f.most:]
	}
	const kept = 40 // of the name, which says to the model what the tool is for
	begun := f.sanitizeName(s)
	room := kept
	if f.most > 0 {
		room = min(room, f.most-digits-1)
	}
	if len(begun) > room {
		begun = begun[:room]
		for begun != "" && !utf8.ValidString(begun) {
			begun = begun[:len(begun)-1]
		}
	}
	return begun + "_" + mark
}

// fitNames reports whether all tools that are offered or were called have names that the upstream takes.
func (r *rules) fitNames(req *llm.Request) bool {
	for i := range req.Tools {
		if !r.names.fits(req.Tools[i].Name) {
			return false
		}
	}
	for i := range req.Messages {
		for j := range req.Messages[i].Parts {
			if call := req.Messages[i].Parts[j].Call; call != nil && !r.names.fits(call.Name) {
				return false
			}
		}
	}
	return true
}

// rename gives tools other names, and says what they were. A tool of the request keeps its name where it fits; the
// others get the nearest that is free, and then those that were called and are not there any more.
func (r *rules) rename(req *llm.Request, offered []llm.Tool) Names {
	upstream, back := map[string]string{}, Names{}
	taken := map[string]bool{}
	give := func(name, other string) {
		upstream[name], taken[other] = other, true
		if name != other {
			back[other] = name
		}
	}
	for _, tool := range offered {
		if r.names.fits(tool.Name) {
			give(tool.Name, tool.Name)
		}
	}
	of := func(name string) string {
		if other, known := upstream[name]; known {
			return other
		}
		other := r.names.sanitizeName(name)
		for n := 0; !r.names.fits(other) || taken[other]; n++ {
			other = r.names.apart(name, n)
		}
		give(name, other)
		return other
	}
	for _, tool := range offered {
		of(tool.Name)
	}
	req.Tools = slices.Clone(req.Tools)
	for i := range req.Tools {
		req.Tools[i].Name = of(req.Tools[i].Name)
	}
	if req.ToolChoice.Mode == llm.ToolNamed {
		req.ToolChoice.Name = of(req.ToolChoice.Name)
	}
	req.Messages = slices.Clone(req.Messages)
	for i := range req.Messages {
		renameCalls(&req.Messages[i], of)
	}
	return back
}

func renameCalls(m *llm.Message, of func(string) string) {
	copied := false
	for j := range m.Parts {
		call := m.Parts[j].Call
		if call == nil || of(call.Name) == call.Name {
			continue
		}
		if !copied {
			m.Parts, copied = slices.Clone(m.Parts), true
		}
		renamed := *call
		renamed.Name = of(call.Name)
		m.Parts[j].Call = &renamed
	}
}
