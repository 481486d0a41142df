// Package tokens counts the tokens of a canonical request: once as well as it can (Estimate) and once so that
// it is never too low (Bound). The gateway uses both, and so may a provider whose upstream reports no usage
// (GAP-108). Neither is what a client is charged: that is the upstream's report.
//
// # Estimate
//
// Estimate is what clients see (count_tokens, message_start) and what decides whether a request fits a
// route's window. It counts as o200k_base does, without carrying that vocabulary: it cuts a text by the same
// rules (split.go), asks a filter of half a megabyte which pieces are tokens (vocabulary.go), and takes the longest
// tokens off a piece that is none (text.go). On texts of 2 KB and more it is usually within one per cent; what
// goes beyond five are lists of made-up names. `go test ./plugins/tokens -bench .` prints speed and error for
// each class of text. The work is bounded by the length of the text, nothing is allocated, and equal
// requests have equal counts. Framing follows the chat format of that vocabulary: three tokens and the role for
// each message, three for the reply to come.
//
// # Bound
//
// Bound sizes holds (GAP-49). A hold that is too small oversells a prepaid balance, so no average will do. Of
// every byte-level BPE one can prove only that a text of n bytes is at most n tokens. For o200k_base and
// cl100k_base more is known:
//
//   - Their rules cut a text into pieces before anything is merged, and no token reaches over a cut. For two
//     neighbouring bytes it is often certain that no rule of either cuts between them: joined lists the cases.
//   - Within a piece they merge two neighbouring tokens as long as any two make a longer token. So at the end no
//     two neighbours make one; and if a piece is a token by itself, it has one token and no neighbours.
//   - Hence, where neighbours x and y surely lie in one piece and xy is a token of both vocabularies, x and y
//     are never two tokens side by side. Two sets say which xy are: all pairs of ASCII characters, and all
//     triples of blank and small letters (merges.go). Tests hold them against both vocabularies.
//
// Among all ways to cut a text into tokens that these exclusions leave over, boundText takes the one with the
// most, so it is not below what either vocabulary makes of the text. Less knowledge only leaves more ways over,
// so leaving out a case of joined, a pair or a triple is always safe. What nothing is known about costs a
// token for each byte: digits in a row, ends of lines, and everything beyond ASCII. English comes to about
// 0.57 of its bytes, code to 0.6; never less than half of them, and more than twice what o200k makes of either.
//
// The parts of a message may reach the tokenizer as one text, which may be cut otherwise than each of them: "uko" is
// one token, and "ukouko" three. A joint costs at most three more. Either a token reaches over it: that one, and one
// on either side when what the token leaves there is joined to its neighbours until it has three bytes, which may
// stand beside anything. Or none does, and only the first three bytes behind the joint may be cut otherwise.
//
// Taken for granted, not proved:
//
//   - Other upstreams' vocabularies are secret. The distance just named is what covers them.
//   - JSON (schemas, arguments) may be printed anew by a chat template, with blanks after its separators or on
//     lines of its own. A template adds at most one piece of white space beside each of `{ } [ ] , :`, and
//     an indentation of blanks is taken to be one token, so each such byte costs two, and three beside a number. The
//     bound holds for templates that print JSON so; one that escapes every character beyond ASCII is not covered.
//   - Framing is special tokens, role and names of fields. It is not text of the request; the constants in
//     bound.go are above what any published chat template or API adds.
//   - Special tokens written out in a text are either text or fewer tokens than that.
//
// Texts are UTF-8, as the families' decoders see to. Bound is never below Estimate.
package tokens

import (
	"sync"
	"unsafe"

	"github.com/fareway/fareway/plugins/llm"
)

// Framing of the estimate, in tokens.
const (
	messageFrame = 4  // around a message, with its role
	replyPriming = 3  // the beginning of the reply
	callFrame    = 8  // around a tool call
	resultFrame  = 4  // around a tool result, beside its message's
	toolsFrame   = 12 // the section that tools are declared in, once
	toolFrame    = 7  // around each tool
	formatFrame  = 8  // around the schema of structured output
)

// Estimate returns about how many tokens the prompt of the request has; at least 1.
func Estimate(req *llm.Request) int64 {
	var p plainer
	defer p.free()
	n := int64(replyPriming)
	for i := range req.Messages {
		m := &req.Messages[i]
		n += messageFrame
		if m.Role == llm.RoleTool {
			n += resultFrame + Text(m.CallID)
		}
		for j := range m.Parts {
			n += Text(p.text(m.Parts[j].Text))
			if c := m.Parts[j].Call; c != nil {
				n += callFrame + Text(c.ID) + Text(c.Name) + Text(p.text(c.Arguments))
			}
		}
	}
	if len(req.Tools) > 0 {
		n += toolsFrame
	}
	for i := range req.Tools {
		t := &req.Tools[i]
		n += toolFrame + Text(t.Name) + Text(t.Description) + Text(borrow(t.Schema))
	}
	if f := req.Format; f != nil {
		n += formatFrame + Text(f.Name) + Text(f.Description) + Text(borrow(f.Schema))
	}
	return n
}

// plainer takes escapes out of texts, into room that it borrows where there are any. The zero value is ready.
type plainer struct{ room *[]byte }

var rooms = sync.Pool{New: func() any { return new([]byte) }}

// text returns a text without escapes, which is valid until the next one is asked for.
func (p *plainer) text(s llm.String) string {
	if text, ok := s.Plain(); ok {
		return text
	}
	if p.room == nil {
		p.room = rooms.Get().(*[]byte)
	}
	*p.room = s.AppendTo((*p.room)[:0])
	return borrow(*p.room)
}

func (p *plainer) free() {
	if p.room != nil {
		rooms.Put(p.room)
	}
}

// borrow reads bytes as a string for as long as a count takes: schemas are most of an agent's request, and a
// copy of them for each count would be most of its garbage.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
