package exchange

import (
	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
)

// conversation is the one that a request is a turn of, nil where nothing is to be remembered: there is one route, or
// every turn is chosen afresh.
type conversation struct {
	key  affinity.Key
	home string // the route that is its own
	work routing.Work
}

// recall finds what is remembered of the request's conversation.
func (x *exchange) recall(ask *routing.Input) {
	if len(ask.Routes) < 2 || x.gen.Config.Affinity.Mode == config.AffinityOff {
		return
	}
	book := x.engine.Conversations()
	x.conversation = &conversation{key: book.Key(x.call.Principal.Account.ID, x.req.profile, x.req.LLM)}
	ask.Past = book.Past(x.ctx, x.conversation.key)
}

// remember notes which route has served a turn, and what its upstream can have in its cache now.
func (x *exchange) remember() {
	if x.conversation == nil {
		return
	}
	a := x.current
	tokens := x.input.estimate
	if u := a.proven(); u != nil {
		tokens = u.Prompt() + outputOf(a)
	}
	x.engine.Conversations().Note(x.ctx, x.conversation.key, affinity.Turn{Home: x.conversation.home,
		Served: a.route.Name, Tokens: tokens, Work: x.conversation.work}, x.gen.Config.Affinity.TTL)
}
