package exchange

// learnTemplates notes what the upstreams counted beyond the most that their prompts can have: their chat templates
// add that. The charge of the request has been computed, by the bounds that are known; a closer one is not looked for
// here.
func (x *exchange) learnTemplates() {
	for _, a := range x.attempts {
		if a.route.TemplateTokens != nil {
			continue
		}
		if u := a.proven(); u != nil && !u.Estimated && u.Doubt == "" {
			x.engine.Templates().Note(a.route, x.beyondBound(a))
		}
	}
}

// beyondBound is how many tokens more an attempt's prompt is reported to have than it can have, 0 for none.
func (x *exchange) beyondBound(a *attempt) int64 {
	u := a.proven()
	if u == nil {
		return 0
	}
	return max(0, u.Prompt()-x.promptBound(a))
}
