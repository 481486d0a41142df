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
func (f *feedback) recallConversation(ask *routing.Input) {
	if len(ask.Routes) < 2 || f.gen.Config.Affinity.Mode == config.AffinityOff {
		return
	}
	book, account := f.engine.Conversations(), f.call.Principal.Account.ID
	c := &conversation{}
	c.key, c.loose, c.isLoose = book.Keys(account, f.req.profile, f.req.LLM)
	if ask.Past = book.Past(f.ctx, c.key); ask.Past == nil && c.isLoose {
		ask.Past = book.Past(f.ctx, c.loose)
	}
	f.conversation = c
}

func (f *feedback) conversationKey() affinity.Key {
	if f.conversation != nil {
		return f.conversation.key
	}
	return f.engine.Conversations().Key(f.call.Principal.Account.ID, f.req.profile, f.req.LLM)
}

// rememberTurn notes which route has served a turn, and what its upstream can have in its cache now.
func (f *feedback) rememberTurn(a *attempt) {
	if f.conversation == nil {
		return
	}
	tokens := f.prompt.counted()
	if u := a.proven(); u != nil {
		tokens = u.Prompt() + outputOf(a)
	}
	book, c, ttl := f.engine.Conversations(), f.conversation, f.gen.Config.Affinity.TTL
	turn := affinity.Turn{Home: c.home, Served: a.route.Name, Tokens: tokens, Work: c.work}
	book.Note(f.ctx, c.key, turn, ttl)
	if c.isLoose {
		book.Note(f.ctx, c.loose, turn, min(ttl, affinity.LooseLifetime))
	}
}
