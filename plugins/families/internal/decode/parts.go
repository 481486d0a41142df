package decode

import "github.com/fareway/fareway/plugins/llm"

// Parts makes messages of one part, many of which share an allocation. The zero value is ready to use.
type Parts struct{ room []llm.Part }

// Of is the parts of a message that has this one.
func (p *Parts) Of(part llm.Part) []llm.Part {
	const least, most = 4, 128
	if len(p.room) == cap(p.room) {
		p.room = make([]llm.Part, 0, min(max(least, 2*cap(p.room)), most))
	}
	n := len(p.room)
	p.room = append(p.room, part)
	return p.room[n : n+1 : n+1]
}
