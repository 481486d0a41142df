package exchange

import (
	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
)

// conversation is the one that a request is a turn of, nil where nothing is to be remembered: there is one route, or
// every turn is chosen afresh.
type conversation struct {
	key affinity.Key
	// loose is the key that it has as well once the assistant has said something, where isLoose.
	loose   affinity.Key
	isLoose bool

	home string // the route that is its own
	work routing.Work
}

// recallConversation finds what is remembered of the request's conversation.
func (x *exchange) recallConversation(ask *routing.Input) {
	if len(ask.Routes) < 2 || x.gen.Config.Affinity.Mode == config.AffinityOff {
		return
	}
	book, account := x.engine.Conversations(), x.call.Principal.Account.ID
	c := &conversation{}
	c.key, c.loose, c.isLoose = book.Keys(account, x.req.profile, x.req.LLM)
	if ask.Past = book.Past(x.ctx, c.key); ask.Past == nil && c.isLoose {
		ask.Past = book.Past(x.ctx, c.loose)
	}
	x.conversation = c
}

// rememberTurn notes which route has served a turn, and what its upstream can have in its cache now.
func (x *exchange) rememberTurn() {
	if x.conversation == nil {
		return
	}
	a := x.current
	tokens := x.input.estimate
	if u := a.proven(); u != nil {
		tokens = u.Prompt() + outputOf(a)
	}
	book, c, ttl := x.engine.Conversations(), x.conversation, x.gen.Config.Affinity.TTL
	turn := affinity.Turn{Home: c.home, Served: a.route.Name, Tokens: tokens, Work: c.work}
	book.Note(x.ctx, c.key, turn, ttl)
	if c.isLoose {
		book.Note(x.ctx, c.loose, turn, min(ttl, affinity.LooseLifetime))
	}
}
