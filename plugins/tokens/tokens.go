// Package tokens counts the tokens of a canonical request without a tokenizer: once as well as it can
// (Estimate) and once so that it is never too low (Bound). The gateway uses both, and so may a provider whose
// upstream reports no usage (GAP-108). Neither is what a client is charged: that is the upstream's report.
//
// # Estimate
//
// Estimate is what clients see (count_tokens, message_start) and what decides whether a request fits a
// route's window. It cuts text as current byte-level BPE vocabularies do before they merge, and adds the
// average cost of each piece by its class and length (weights.go). It aims at o200k; on prose, source code
// and JSON it is a few per cent off, on other languages up to about fifteen. Framing follows the chat format
// of that vocabulary: three tokens and the role for each message, three for the reply to come. It takes
// one pass over the text whatever the text is, allocates nothing, and equal requests have equal counts.
//
// # Bound
//
// Bound sizes holds (GAP-49). No average holds against hostile text, and what can be proved of every
// byte-level BPE is this: its vocabulary holds all 256 single bytes and every merge joins two tokens into one,
// so a text of n bytes never becomes more than n tokens. Fewer cannot be promised without the merge table,
// which is the upstream's secret: a vocabulary may lack any given merge. Hence:
//
//   - Each text costs its bytes. That includes special tokens written out in a text: each is many bytes.
//   - JSON (schemas, arguments) may be printed anew by a chat template, with blanks after its separators or on
//     lines of its own. A template adds at most one piece of white space beside each of `{ } [ ] , :`, and
//     white space of one indentation is taken to be one token, so each such byte costs one more. The bound
//     holds for templates that print JSON so; one that escapes every character beyond ASCII is not covered.
//   - Framing is special tokens, role and names of fields. It is not text of the request, so no proof covers
//     it; the constants in bound.go are above what any published chat template or API adds.
//
// Bound is never below Estimate.
package tokens

import (
	"unsafe"

	"github.com/fareway/fareway/plugins/llm"
)

// Framing of the estimate, in tokens.
const (
	messageFrame  = 4  // around a message, with its role
	replyPriming  = 3  // the beginning of the reply
	callFrame     = 8  // around a tool call
	resultFrame   = 4  // around a tool result, beside its message's
	toolsFrame    = 16 // the section that tools are declared in, once
	toolFrame     = 8  // around each tool
	formatFrame   = 8  // around the schema of structured output
	estimateEmpty = 1  // no request has fewer tokens
)

// Estimate returns about how many tokens the prompt of the request has; at least 1.
func Estimate(req *llm.Request) int64 {
	tokens, units := int64(replyPriming), int64(0)
	for i := range req.Messages {
		m := &req.Messages[i]
		tokens += messageFrame
		if m.Role == llm.RoleTool {
			tokens += resultFrame
			units += textUnits(m.CallID)
		}
		for j := range m.Parts {
			units += textUnits(m.Parts[j].Text)
			if c := m.Parts[j].Call; c != nil {
				tokens += callFrame
				units += textUnits(c.ID) + textUnits(c.Name) + textUnits(c.Arguments)
			}
		}
	}
	if len(req.Tools) > 0 {
		tokens += toolsFrame
	}
	for i := range req.Tools {
		t := &req.Tools[i]
		tokens += toolFrame
		units += textUnits(t.Name) + textUnits(t.Description) + textUnits(borrow(t.Schema))
	}
	if f := req.Format; f != nil {
		tokens += formatFrame
		units += textUnits(f.Name) + textUnits(f.Description) + textUnits(borrow(f.Schema))
	}
	return max(tokens+(units+unit/2)/unit, estimateEmpty)
}

// borrow reads bytes as a string for as long as a count takes: schemas are most of an agent's request, and a
// copy of them for each count would be most of its garbage.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Text returns about how many tokens a text has by itself, without any framing.
func Text(s string) int64 { return (textUnits(s) + unit/2) / unit }
