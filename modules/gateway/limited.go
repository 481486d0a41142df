package gateway

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/requestlog"
	"github.com/fareway/fareway/plugins/families"
)

// ClientAddress is where a request came from, for the limits of addresses and the access line: what Caddy takes for
// the client, which is the peer, or what the peer says when the site's trusted_proxies has it (GAP-88). We read no
// header ourselves, for anybody can write one. The zero Addr stands for a peer without an address, on a unix
// socket.
func ClientAddress(r *http.Request) netip.Addr {
	client, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	if a, err := netip.ParseAddr(client); err == nil {
		return a
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr) // outside of Caddy, as in tests
	a, _ := netip.ParseAddr(host)
	return a
}

// Limited is the refusal for what the engine says of a request's limits: the 429 that names the limit and says how
// long to wait (LIM-05 to LIM-11), without both where it is none of the account's (LIM-12). It is nil when the
// request is within them. Without a limiter nobody is served: what could not be counted was the service's failure.
func (c *Call) Limited(l *engine.Limited, err error) *families.Error {
	switch {
	case err != nil:
		c.Work.Engine().Logger().Error("counting a request", "request_id", c.ID, "error", err)
		return InternalError()
	case l == nil:
		return nil
	case l.Reason == "": // as many replies are in progress as max_streams allows
		return &families.Error{Status: http.StatusTooManyRequests, Code: families.RateLimitExceeded,
			Message: "The service has as many requests in progress as it takes. Trying again in a few seconds helps."}
	}
	c.Record.Reason, c.Record.Refused = l.Reason, &requestlog.Refused{By: l.Reason, Unit: "requests", Needed: 1,
		Limit: l.Limit, Used: l.Limit}
	if l.Foreseen {
		c.Record.Refused.Resets = new(c.Work.Engine().Now().UTC().Add(l.Wait))
	}
	seconds := int(l.Wait / time.Second)
	wait := fmt.Sprintf(" Trying again helps in %d seconds.", seconds)
	if seconds == 1 {
		wait = " Trying again helps in a second."
	}
	return &families.Error{Status: http.StatusTooManyRequests, Code: families.RateLimitExceeded,
		Message: l.Message + wait, Reason: l.Reason, RetryAfter: seconds}
}
