package exchange

import (
	"net/http"
	"strings"

	"github.com/fareway/fareway/modules/internal/cache"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// maxKeptReply bounds a reply that is kept to be played again, in bytes. The cache has a bound of its own.
const maxKeptReply = 1 << 20

// isCacheable reports whether the request may be answered from the response cache, or its reply be kept there: the
// client asks for no randomness, nobody forbids it, and nothing is kept for an account whose plan demands so (GAP-61).
func (x *exchange) isCacheable() bool {
	replies, _ := x.gen.Replies()
	t, kept := x.req.LLM.Temperature, x.req.requires.Retention
	return replies != nil && t != nil && *t == 0 && !cacheControl(x.request, "no-store") &&
		(kept == nil || *kept >= x.gen.Config.Cache.TTL)
}

// cacheControl reports whether a request has a directive (RFC 9111, section 5.2.1).
func cacheControl(r *http.Request, directive string) bool {
	for _, line := range r.Header["Cache-Control"] {
		for d := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(d), directive) {
				return true
			}
		}
	}
	return false
}

// findCached looks for the request in the response cache, and notes under which key its reply is to be kept.
func (x *exchange) findCached() (cache.Reply, bool) {
	if !x.isCacheable() {
		return cache.Reply{}, false
	}
	replies, keys := x.gen.Replies()
	key := keys.Key(cache.Scope{Account: x.call.Principal.Account.ID, Family: x.call.Family.Name(), Profile: x.req.profile,
		Configuration: x.gen.Config.Hash, Plan: x.call.Principal.Account.Plan,
		Structured: x.gen.Config.Gateway.StructuredOutput}, x.req.LLM)
	x.cacheKey = &key
	if cacheControl(x.request, "no-cache") {
		return cache.Reply{}, false
	}
	reply, hit := replies.Get(x.ctx, key)
	if hit {
		x.engine.Metrics().CacheLookup("hit")
	} else {
		x.engine.Metrics().CacheLookup("miss")
	}
	return reply, hit
}

// answerCached answers with a reply of before: in the events of any other, with new ids. Only the screening is
// charged.
func (x *exchange) answerCached(r cache.Reply) *families.Error {
	if x.clientLeft() {
		return x.abandon()
	}
	d := x.delivery
	x.beginDelivery()
	s := ledger.Settlement{Status: http.StatusOK, Reason: "cached"}
	due := x.due(&s)
	text := llm.Event{Kind: llm.EventText, Text: r.Text}
	end := families.End{Finish: llm.FinishStop, StopSequence: r.Stop, Usage: new(llm.Usage), Billed: due.Microcents,
		At: x.engine.Now().Unix()}
	if _, err := x.settle(s, due); err != nil {
		return x.call.LedgerError("settling", err)
	}
	var fold llm.Reply
	if d.stream {
		d.addStart()
		if r.Text != "" {
			d.addEvent(text)
		}
		d.addFrames(func(b []byte) []byte { return d.encoder.AppendEnd(b, end) })
		d.writeEnd()
		return nil
	}
	if r.Text != "" {
		fold.Add(text)
	}
	fold.Close()
	d.writeBody(d.encoder.AppendReply(make([]byte, 0, 1<<10), &fold, end))
	return nil
}

// keepsText reports whether the text of a stream is kept beside what is sent, for the response cache, or to be
// compared.
func (x *exchange) keepsText(ev llm.Event) bool {
	if x.cacheKey == nil && !x.comparesText() {
		return false
	}
	if x.kept += len(ev.Text); x.kept > maxKeptReply {
		if x.cacheKey = nil; x.training != nil {
			x.training.long = true
		}
		return false
	}
	return true
}

// cacheReply puts a reply into the response cache, if it is one: whole, of text alone, and ended by itself or by a
// stop sequence.
func (x *exchange) cacheReply(end ending) {
	if x.cacheKey == nil || end.finish != llm.FinishStop || x.clientLeft() {
		return
	}
	fold := &x.current.reply.fold
	if len(fold.Calls()) > 0 {
		return
	}
	text := fold.Text()
	if x.delivery.stream {
		text += end.rest // of a reply in one piece it is there already
	}
	if len(text) > maxKeptReply {
		return
	}
	replies, _ := x.gen.Replies()
	replies.Put(x.ctx, *x.cacheKey, cache.Reply{Text: text, Stop: end.stop}, x.gen.Config.Cache.TTL)
}
