package exchange

import "github.com/fareway/fareway/plugins/llm"

// withStates adds to a request what the route's upstream gave with the calls of the conversation, for their results
// (GAP-117). A request without tools has none.
func (x *exchange) withStates(up *llm.Request) *llm.Request {
	if len(up.Tools) == 0 {
		return up
	}
	account, route, states := x.call.Principal.Account.ID, x.attempt().route.Name, x.engine.States()
	x.conversation = states.Conversation(up) // the request may be let go of before its calls come
	for i := range up.Messages {
		for _, part := range up.Messages[i].Parts {
			if part.Call == nil {
				continue
			}
			if state := states.Find(account, route, x.conversation, part.Call.ID); state != nil {
				if up.States == nil {
					up.States = make(map[string][]byte)
				}
				up.States[part.Call.ID] = state
			}
		}
	}
	return up
}

// keepState keeps what the upstream wants back with the result of a call. An account whose plan demands that nothing is
// kept has no states: that attribute of plans is to be looked at here.
func (x *exchange) keepState(a *attempt, call llm.Event) {
	if len(call.State) > 0 {
		x.engine.States().Keep(x.call.Principal.Account.ID, a.route.Name, x.conversation, call.ID, call.State)
	}
}
