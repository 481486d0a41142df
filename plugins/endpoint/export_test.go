package endpoint

// Idle is how many connections without TLS wait for a call.
func (c *Client) Idle() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.kinds {
		n += t.direct.Idle()
	}
	return n
}
