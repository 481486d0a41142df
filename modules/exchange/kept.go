package exchange

import (
	"github.com/fareway/fareway/modules/internal/validate"
	"github.com/fareway/fareway/plugins/llm"
)

// finishReply ends the reply of an attempt.
func (a *attempt) finishReply() (ending, *failure) {
	if a.ended != nil {
		return *a.ended, nil
	}
	a.reply.fold.Close()
	return a.reply.end()
}

// finishKept ends a reply that was kept back: with what a stop sequence withheld, and with what stands in for a reply
// that a content policy ended before any text. It fails where there is nothing to show.
func (a *attempt) finishKept() *failure {
	if a.ended == nil {
		end, f := a.finishReply()
		if f != nil {
			return f
		}
		if end.rest != "" {
			a.reply.fold.Add(llm.Event{Kind: llm.EventText, Text: end.rest})
			a.reply.fold.Close()
			end.rest = ""
		}
		a.ended = &end
	}
	return nil
}

// forValidation is a whole reply as it is judged.
func (a *attempt) forValidation() *validate.Reply {
	return &validate.Reply{Text: a.reply.fold.Text(), Calls: a.reply.fold.Calls(),
		Declined: a.reply.finish == llm.FinishPolicy,
		Cut:      a.reply.finish == llm.FinishLength && !a.reply.matched()}
}

// reveal shows a reply that was kept back, and makes it the client's.
func (w *work) reveal(a *attempt) {
	w.current = a
	for _, kept := range a.states {
		w.prompt.keepState(a, kept)
	}
	w.delivery.showKept(&a.reply.fold)
	if w.req.Stream {
		w.transport.forgetPrompt(a)
	}
}
