//go:build !unix

package gateway

// handleInterrupt leaves the interrupt to Caddy: nothing here makes it end as SIGTERM does.
func handleInterrupt() {}
