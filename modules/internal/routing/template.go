package routing

import "github.com/fareway/fareway/config"

// Templates are how many tokens routes are known to add to a prompt, by the chat templates of their upstreams: what an
// upstream reported beyond the most that the prompt can have. It is never changed; nil knows of none.
type Templates map[LearnedOf]int64

// mostTemplate is what no chat template adds more than, in tokens: what is reported beyond that is no template.
const mostTemplate = 16384

// MostTemplate is how many tokens can be learned to be those of a route's template: however an upstream counts, three
// quarters of its window stay.
func MostTemplate(r *config.Route) int64 { return min(mostTemplate, r.ContextWindow/4) }

// PromptBound is how many tokens are sent to a route at most, for a request that has at most so many: with the replies
// of others that it reads, and what its upstream adds. What is longer than its window, it does not take (GAP-137).
func (c *Candidate) PromptBound(request int64) int64 {
	return min(Sum(request, Sum(c.Extra, c.Template)), c.Route.ContextWindow)
}

// Of is how many tokens a route adds to a prompt: what the operator says, or else what was learned.
func (t Templates) Of(r *config.Route) int64 {
	if r.TemplateTokens != nil {
		return *r.TemplateTokens
	}
	if len(t) == 0 {
		return 0
	}
	return min(t[LearnedOf{r.Name, r.Model}], MostTemplate(r))
}
