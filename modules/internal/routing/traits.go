package routing

import (
	"encoding/binary"
	"fmt"

	"github.com/fareway/fareway/plugins/llm"
)

// Traits are what a choice takes from the request itself, beside what Input says of it: numbers, and no word of its
// text. Who keeps them can make the choice again, also by another configuration.
type Traits struct {
	Turns int  // of the assistant, so far
	Loop  bool // it answers tool calls
	// Signal is what the predictor made of it, packed, with the fingerprint of its model; nil where it was not asked.
	Signal []byte
}

// Keep says of which requests traits are wanted.
type Keep int

const (
	KeepNothing Keep = iota
	KeepRead         // all; a signal only where the predictor is asked anyway
	KeepAll          // all; the predictor is asked also where there is no choice
)

// Loops reports whether the request is a turn in a loop of tool calls: it answers them.
func (in *Input) Loops() bool {
	if in.Traits != nil {
		return in.Traits.Loop
	}
	n := 0
	if in.Request != nil {
		n = len(in.Request.Messages)
	}
	return n > 0 && in.Request.Messages[n-1].Role == llm.RoleTool
}

// turns is how many the conversation had.
func (in *Input) turns() (n int) {
	switch {
	case in.Traits != nil:
		return in.Traits.Turns
	case in.Request == nil:
		return 0
	}
	for i := range in.Request.Messages {
		if in.Request.Messages[i].Role == llm.RoleAssistant {
			n++
		}
	}
	return n
}

// read looks at the request, or at what is kept of it; nil where that tells nothing.
func (in *Input) read() (s *sight) {
	switch {
	case in.usual != nil:
		if s = in.Predictor.read(new(llm.Request)); s != nil {
			in.usual.show(s)
		}
	case in.Traits != nil:
		s = in.Predictor.unpack(in.Traits.Signal)
	default:
		s = in.Predictor.read(in.Request)
	}
	if s != nil {
		s.learned, s.work = in.Learned, nil
		if in.usual == nil {
			s.now = in.Predictor.model.Work(&s.signal)
		}
		s.now.Ease += in.shift
	}
	return s
}

// traits are those that are wanted, without a signal.
func (in *Input) traits() Traits {
	if in.Keep == KeepNothing {
		return Traits{}
	}
	return Traits{Turns: in.turns(), Loop: in.Loops()}
}

// Foresee fills in what is expected of the candidates where MakeItinerary did not ask, because there was nothing to
// choose.
func Foresee(in *Input, it *Itinerary) {
	if it.Kinds != [len(it.Kinds)]float32{} {
		return
	}
	s := in.read()
	if s == nil {
		return
	}
	for i := range it.Candidates {
		in.foresee(&it.Candidates[i], s)
	}
	in.Predictor.done(s)
}

// keep fills in the signal, if it is wanted. s is what the predictor saw, nil where it was not asked.
func (in *Input) keep(it *Itinerary, s *sight) {
	switch {
	case in.Keep == KeepNothing:
	case s != nil:
		it.Traits.Signal = in.Predictor.pack(s)
	case in.Keep == KeepAll:
		if s = in.read(); s != nil {
			it.Traits.Signal = in.Predictor.pack(s)
			in.Predictor.done(s)
		}
	}
}

// Reads reports whether this predictor made a signal that was kept.
func (p *Predictor) Reads(signal []byte) bool {
	return len(signal) >= 4 && binary.LittleEndian.Uint32(signal) == p.print
}

// SignalsOf is the fingerprint of the model that made a signal that was kept, as in About; "" for none.
func SignalsOf(signal []byte) string {
	if len(signal) < 4 {
		return ""
	}
	return fmt.Sprintf("%08x", binary.LittleEndian.Uint32(signal))
}

func (p *Predictor) pack(s *sight) []byte {
	b := make([]byte, 0, 4+p.model.PackedSize())
	return p.model.Pack(binary.LittleEndian.AppendUint32(b, p.print), &s.signal)
}

// unpack is read for what pack made; nil where another model made it.
func (p *Predictor) unpack(b []byte) *sight {
	if p == nil || !p.Reads(b) {
		return nil
	}
	s, _ := p.free.Get().(*sight)
	if !p.model.Unpack(b[4:], &s.signal) {
		p.free.Put(s)
		return nil
	}
	s.output = p.output.Of(&s.signal)
	return s
}
