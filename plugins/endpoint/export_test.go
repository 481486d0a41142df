package endpoint

import "context"

// Get asks a source for the endpoint of a model.
func Get(ctx context.Context, s *Source, model string) (*Endpoint, error) {
	return s.get(ctx, model, nil)
}

// Idle is how many connections without TLS wait for a call.
func (c *Client) Idle() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.kinds {
		n += t.direct.Idle()
	}
	return n
}
