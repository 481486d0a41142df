// Package conform makes of a request one that its upstream takes, whatever service the conversation began on
// (GAP-127). What an upstream refuses is data: names of llm.Restrictions, which a dialect, a preset and an operator's
// route have. It is for whoever is about to write a request of an upstream: package endpoint, and providers with a
// wire format of their own.
//
// Nothing is remembered beyond a request. What a mapped message, name or id becomes depends on the tools and on what
// stands before it, so that a conversation that goes on begins upstream with the same bytes as before. A request that
// fits is returned as it is, and nothing is allocated.
//
// Whatever the upstream, a request has it this way:
//
//   - the results of calls stand directly behind them, and each call has one (GAP-28): one that nobody answered
//     says so;
//   - ids of calls are distinct, also of two turns that had the same one;
//   - arguments of calls are JSON objects (GAP-84): what is missing of a text that was cut off is put behind it, and
//     what is no object is {}.
package conform

import (
	"github.com/fareway/fareway/plugins/llm"
)

// Request returns the request as its upstream takes it: req itself where it fits, otherwise a copy that shares with
// it what is the same. What the upstream refuses are req.Unsupported and refused. Names are those by which it knows
// tools. The error is an *llm.Error of kind llm.ErrUnfit: the upstream cannot carry the request.
func Request(req *llm.Request, refused []string) (fit *llm.Request, names Names, err error) {
	w := scratches.Get().(*scratch)
	defer w.done()
	w.rules = read(refused, req.Unsupported)
	r := &w.rules
	if err := r.carries(req); err != nil {
		return nil, nil, err
	}
	tools, conversation := r.fitTools(req), r.fitMessages(req.Messages, w)
	named, format := r.fitNames(req), r.fitFormat(req.Format)
	if tools && conversation && named && format {
		return req, nil, nil
	}
	out := *req
	if !format {
		out.Format = r.format(req.Format)
	}
	if !conversation {
		r.converse(&out)
	}
	if !tools {
		if out.Tools, err = r.tools(req); err != nil {
			return nil, nil, err
		}
		if req.ToolChoice.Mode == llm.ToolNamed && r.has(namedChoice) {
			out.ToolChoice = llm.ToolChoice{Mode: llm.ToolRequired}
		}
	}
	if !named {
		names = r.rename(&out, req.Tools)
	}
	return &out, names, nil
}

// carries says why no request of this kind can be sent.
func (r *rules) carries(req *llm.Request) error {
	switch {
	case r.has(forcedChoice) && req.ForcesCall():
		return llm.Errorf(llm.ErrUnfit, "the upstream cannot be made to call a tool (forced_tool_choice)")
	case r.has(jsonWithTools) && req.FormatsWithTools():
		return llm.Errorf(llm.ErrUnfit, "the upstream takes no format beside tools (json_with_tools)")
	}
	return nil
}
