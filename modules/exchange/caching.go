package exchange

import (
	"net/http"
	"strings"

	"github.com/fareway/fareway/modules/internal/cache"
	"github.com/fareway/fareway/plugins/llm"
)

// maxKeptReply bounds a reply that is kept to be played again, in bytes. The cache has a bound of its own.
const maxKeptReply = 1 << 20

// caching is what the response cache has, or gets, of an exchange.
type caching struct {
	*scope
	key *cache.Key // under which the reply is to be kept, nil where it is not
}

// isWanted reports whether the reply is to be kept; drop gives that up.
func (c *caching) isWanted() bool { return c.key != nil }
func (c *caching) drop()          { c.key = nil }

// isCacheable reports whether the request may be answered from the response cache, or its reply be kept there: the
// client asks for no randomness, nobody forbids it, and nothing is kept for an account whose plan demands so (GAP-61).
func (c *caching) isCacheable() bool {
	replies, _ := c.gen.Replies()
	t, kept := c.req.LLM.Temperature, c.req.requires.Retention
	return replies != nil && t != nil && *t == 0 && !cacheControl(c.request, "no-store") &&
		(kept == nil || *kept >= c.gen.Config.Cache.TTL)
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

// find looks for the request in the response cache, and notes under which key its reply is to be kept.
func (c *caching) find() (cache.Reply, bool) {
	if !c.isCacheable() {
		return cache.Reply{}, false
	}
	replies, keys := c.gen.Replies()
	key := keys.Key(cache.Scope{Account: c.call.Principal.Account.ID, Family: c.call.Family.Name(), Profile: c.req.profile,
		Configuration: c.gen.Config.Hash, Plan: c.call.Principal.Account.Plan,
		Structured: c.gen.Config.Gateway.StructuredOutput}, c.req.LLM)
	c.key = &key
	if cacheControl(c.request, "no-cache") {
		return cache.Reply{}, false
	}
	reply, hit := replies.Get(c.ctx, key)
	outcome := "miss"
	if hit {
		outcome = "hit"
	}
	c.engine.Metrics().CacheLookup(outcome)
	return reply, hit
}

// keep puts a reply into the cache if it is whole, of text alone, and ended by itself or by a stop sequence.
func (c *caching) keep(fold *llm.Reply, end ending) {
	if c.key == nil || end.finish != llm.FinishStop || len(fold.Calls()) > 0 {
		return
	}
	text := fold.Text()
	if c.req.Stream {
		text += end.rest // of a reply in one piece it is there already
	}
	if len(text) > maxKeptReply {
		return
	}
	replies, _ := c.gen.Replies()
	replies.Put(c.ctx, *c.key, cache.Reply{Text: text, Stop: end.stop}, c.gen.Config.Cache.TTL)
}
