package exchange

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/stop"
	"github.com/fareway/fareway/plugins/llm"
)

// reply turns the events of one attempt into what the client may see: it ends the reply at the stop sequences
// (STOP-01 to STOP-34), releases withheld text before a tool call, and drops what follows a match. It writes
// nothing itself; streamed and not streamed replies are cut by the same code, and so at the same place.
type reply struct {
	matcher stop.Matcher
	// words are the route's own words for the end of a reply, in lower case.
	words map[string]llm.FinishReason
	fold  llm.Reply // what is visible, whole; for a stream its tool calls only

	produced bool // the route wrote text, shown or not
	visible  bool // text or a tool call passed (GAP-41)
	finish   llm.FinishReason
	// dropped are the calls that began after a match; a call that began before it is kept whole (GAP-70).
	dropped map[int]bool
}

// addEvent takes the next event of the attempt and passes on what the client may see, in order.
func (r *reply) addEvent(ev llm.Event, pass func(llm.Event)) {
	switch ev.Kind {
	case llm.EventText:
		if ev.Text == "" {
			return
		}
		r.produced = true
		text, _, _ := r.matcher.Feed(ev.Text)
		r.passText(text, pass)
	case llm.EventToolCall:
		if r.matched() {
			if r.dropped == nil {
				r.dropped = make(map[int]bool)
			}
			r.dropped[ev.Index] = true
			return
		}
		r.passText(r.matcher.Flush(), pass)
		r.visible = true
		pass(ev)
	case llm.EventToolArguments, llm.EventToolEnd:
		if !r.dropped[ev.Index] {
			pass(ev)
		}
	case llm.EventFinish:
		r.finish = ev.Finish
		if own, ok := r.words[strings.ToLower(string(ev.Finish))]; ok && !ev.Finish.Known() {
			r.finish = own
		}
	case llm.EventAccepted, llm.EventReasoning, llm.EventUsage, llm.EventReference:
	}
}

func (r *reply) passText(text string, pass func(llm.Event)) {
	if text == "" {
		return
	}
	r.visible = true
	pass(llm.Event{Kind: llm.EventText, Text: text})
}

func (r *reply) matched() bool { return r.matcher.Matched() != "" }

// unfinished is the failure of a reply whose upstream ended it for a reason that nobody knows: it may have failed, and
// a reply that failed must never look complete (GAP-114). Call it when the route has finished.
func (r *reply) unfinished() *failure {
	if r.finish.Known() {
		return nil
	}
	reason := string(r.finish)
	err := llm.Errorf(llm.ErrUpstream, "the upstream ended its reply for the reason %q, which is not known; if replies "+
		"that end so are whole, say what it means in the route's finish_reasons, as in { %q = \"stop\" }", reason, reason)
	if !config.IsFinishWord(reason) { // it may be a text, which is not for a log
		err = llm.Errorf(llm.ErrUpstream, "the upstream ended its reply for a reason that is no word")
	}
	return &failure{kind: llm.ErrUpstream, err: err}
}

// policyText stands in for a reply that a content policy ended before any text (POL-06, GAP-95). It is the
// service's own text and never matched against stop sequences (GAP-75).
const policyText = "This request was blocked by the content policy. If you think this is a mistake, contact support " +
	"with the request id."

// ending is how a finished reply ends for the client.
type ending struct {
	finish llm.FinishReason
	stop   *string // the stop sequence that the service matched
	rest   string  // text that is still owed to the client
}

// end judges a reply whose route has finished. A content policy outranks a match, a match outranks every
// other finish of the route (GAP-70, GAP-73, GAP-94).
func (r *reply) end() (ending, *failure) {
	e := ending{finish: r.finish}
	calls := r.fold.Calls()
	switch {
	case r.finish == llm.FinishPolicy:
		e.rest = r.matcher.Flush()
		if !r.produced {
			e.rest = policyText
		}
		return e, nil
	case r.matched():
		matched := r.matcher.Matched()
		e.finish, e.stop = llm.FinishStop, &matched
	default:
		e.rest = r.matcher.Flush()
		if e.rest == "" && !r.visible {
			return ending{}, &failure{kind: noVisibleText}
		}
		if len(calls) > 0 && r.finish != llm.FinishLength {
			e.finish = llm.FinishToolCalls
		} else if r.finish != llm.FinishLength {
			e.finish = llm.FinishStop
		}
	}
	if r.finish != llm.FinishLength {
		for _, c := range calls {
			if !validArguments(c.Arguments.String()) {
				return ending{}, &failure{kind: invalidArguments}
			}
		}
	}
	return e, nil
}

// validArguments reports whether a call's arguments are a JSON object; none at all mean {} (GAP-84).
func validArguments(s string) bool {
	return s == "" || utf8.ValidString(s) && json.Valid([]byte(s)) &&
		strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "{")
}
