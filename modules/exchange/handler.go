// Package exchange answers the requests: it is the terminal handler and the one place that knows the order in which a
// request is decoded, routed, held, sent upstream, delivered and settled. Each step itself lives elsewhere: families,
// routing, ledger, stop, plugins/host.
//
// # The order of refusals
//
// One request can be wrong in several ways; the first of these that fails is its answer (GAP-01).
//
//	 1 the request id                              entry
//	 2 path and method: 404, 405, 426              entry, table.go
//	 3 failed authentications of the address: 429  auth
//	 4 the credential: 401                         auth
//	 5 the account's state: 403                    auth
//	 6 rates, requests in progress: 429            limits
//	 7 the body's size: 413                        limits
//	 8 JSON syntax, top level an object: 400       families.Parse, called by limits
//	 9 credential-like fields: 400                 families.Parse
//	10 the model: 400, 404                         request.go
//	11 the profile header: 400                     request.go
//	12 images and audio: 400                       the family's Decode
//	13 fields and tools that are not offered: 400  the family's Decode
//	14 all other rules of fields: 400              the family's Decode
//	   - the token count answers here -
//	15 credits, caps, budget used up: 402          admission.go, refuseExhausted
//	16 features and context window: 503, 400       admission.go, routing.MakeItinerary
//	17 the hold, with caps and budget: 402         admission.go, books.go, ledger
//	18 the response cache                          caching.go
//	19 screening: 400                              screening.go
//	20 routing: 400, 402, 422, 429, 502, 503, 504  work.go, failure.go
//
// The code asks for 15 only where 16, or routes that are full, would refuse: the hold refuses for the same
// reasons, in one transaction with what it holds.
package exchange

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/plugins/families"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler answers requests. It comes last, after the handler fareway_limits.
type Handler struct{ gateway.Placed }

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.fareway_exchange", New: func() caddy.Module { return new(Handler) }}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	call := h.Take(w, r, gateway.LinkExchange)
	if call == nil {
		return nil
	}
	var refusal *families.Error
	switch call.Kind {
	case gateway.Models:
		refusal = serveModels(w, call)
	case gateway.Model:
		refusal = serveModel(w, call)
	case gateway.Account:
		refusal = serveAccount(w, r, call)
	case gateway.CountTokens:
		refusal = serveCount(w, r, call)
	case gateway.Generate:
		refusal = generate(w, r, call)
	}
	if refusal != nil {
		return call.Refuse(w, refusal)
	}
	return nil
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
