package messages

import (
	"strconv"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// LeastThinking is the least budget of tokens for thinking that the API takes (platform.claude.com, "Extended
// thinking").
const LeastThinking = 1024

// Efforts are what Options.Effort can be (platform.claude.com, "Effort"); which of them a model has says its
// documentation.
func Efforts() []string { return []string{"low", "medium", "high", "xhigh", "max"} }

// appendThinking appends the member thinking, and reports whether the model may think by it. It is left out where the
// API would refuse the request with it ("Extended thinking", "Adaptive thinking", November 2026):
//
//   - a model that must call a tool cannot think before;
//   - nor can one that goes on with a reply;
//   - a budget is at least LeastThinking and less than the allowance, of which at least half is left to the reply;
//   - with a budget, a turn of results has to begin with what was thought before their calls.
func appendThinking(b []byte, req *llm.Request, budget *int64, turns []*turn) (_ []byte, thinks bool) {
	if budget == nil {
		return b, false
	}
	mode := req.ToolChoice.Mode
	forced := len(req.Tools) > 0 && (mode == llm.ToolRequired || mode == llm.ToolNamed)
	switch {
	case *budget == 0:
		return append(b, `,"thinking":{"type":"disabled"}`...), false
	case forced, turns[len(turns)-1].assistant:
		return b, false
	case *budget < 0:
		return append(b, `,"thinking":{"type":"adaptive"}`...), true
	}
	tokens := min(*budget, req.MaxTokens/2)
	if tokens < LeastThinking || forgotten(turns) {
		return b, false
	}
	b = append(b, `,"thinking":{"type":"enabled","budget_tokens":`...)
	return append(strconv.AppendInt(b, tokens, 10), '}'), true
}

// forgotten reports whether a conversation ends with results of calls, and nobody knows what was thought before them.
func forgotten(turns []*turn) bool {
	n := len(turns)
	if len(turns[n-1].results) == 0 {
		return false
	}
	if n == 1 { // the calls are gone, too
		return true
	}
	first, _ := jsonview.Parse(turns[n-2].blocks[0], maxArgumentDepth) // a block is JSON of ours, or was read as such
	kind, _ := first.Get("type").Str()
	return kind != "thinking" && kind != "redacted_thinking"
}
