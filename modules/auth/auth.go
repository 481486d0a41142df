// Package auth finds out which account and key a request acts for (GAP-01 steps 3 to 5), and stops those who try
// out keys (GAP-90).
package auth

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/families"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler turns the API key of a request into its account. An address from which too many requests came without
// a valid key is refused before its key is looked at: nobody can try out keys. It comes after the handler
// `fareway`.
type Handler struct{ gateway.Placed }

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.fareway_auth", New: func() caddy.Module { return new(Handler) }}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	call := h.Take(w, r, gateway.LinkAuth)
	if call == nil {
		return nil
	}
	if refusal := identifyCaller(r, call); refusal != nil {
		if call.Record.KeyState == gateway.KeyProbe {
			return gateway.AnswerProbe(call.Work.Leaving(), w, r, call)
		}
		return call.Refuse(w, refusal)
	}
	return next.ServeHTTP(w, r)
}

// identifyCaller says who asks. It is not a part of ServeHTTP, whose stack is there for as long as a stream lasts:
// with what this takes, that of an idle one would be twice as large.
//
//go:noinline
func identifyCaller(r *http.Request, call *gateway.Call) *families.Error {
	if refusal := call.Limited(call.Work.CheckFailures(r.Context(), call.From)); refusal != nil {
		return refusal
	}
	principal, refusal := authenticate(r, call)
	call.Principal = principal
	if refusal != nil && refusal.Status == http.StatusUnauthorized &&
		!gateway.IsProbe(credential(r.Header, call.Family.APIKeyHeader())) {
		if limited := call.Limited(call.Work.CountFailure(r.Context(), call.From)); limited != nil {
			return limited
		}
	}
	return refusal
}

func authenticate(r *http.Request, call *gateway.Call) (ledger.Principal, *families.Error) {
	text := credential(r.Header, call.Family.APIKeyHeader())
	hash, ok := ledger.ParseKey(text)
	if !ok {
		call.Record.KeyState = gateway.KeyMalformed
		if gateway.Probes.Opens(text, call.Start) {
			call.Record.KeyState = gateway.KeyProbe
		}
		if text == "" {
			call.Record.KeyState = gateway.KeyMissing
		}
		return ledger.Principal{}, unauthenticated()
	}
	p, err := call.Work.Engine().Lookup(r.Context(), hash)
	switch {
	case errors.Is(err, engine.ErrKeyEnded):
		call.Record.KeyState = gateway.KeyExpired
		if p.Key.Revoked {
			call.Record.KeyState = gateway.KeyRevoked
		}
		ended := unauthenticated()
		ended.Passing = true // its owner may be given more time (GAP-119)
		return p, ended
	case errors.Is(err, ledger.ErrNotFound):
		call.Record.KeyState = gateway.KeyUnknown
		return ledger.Principal{}, unauthenticated()
	case err != nil:
		return ledger.Principal{}, call.LedgerError("looking up a key", err)
	case p.Account.State != ledger.Active:
		return p, &families.Error{Status: http.StatusForbidden, Code: families.PermissionDenied,
			Message: "The account is " + string(p.Account.State) + ". Trying again helps only once it is active. " +
				"Contact support with the request id " + call.ID + "."}
	}
	return p, nil
}

// credential takes the key out of the headers. Authorization alone decides where it is present, even on
// endpoints that accept x-api-key: two credentials must never widen access (GAP-19).
func credential(h http.Header, apiKeyHeader bool) string {
	if values, present := h["Authorization"]; present {
		for _, v := range values {
			if v != values[0] {
				return ""
			}
		}
		scheme, key, _ := strings.Cut(values[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return ""
		}
		return strings.TrimSpace(key)
	}
	if values := h["X-Api-Key"]; apiKeyHeader && len(values) == 1 {
		return strings.TrimSpace(values[0])
	}
	return ""
}

func unauthenticated() *families.Error {
	return &families.Error{Status: http.StatusUnauthorized, Code: families.Authentication,
		Message: "The API key is missing, mistyped, expired or revoked, " +
			"or was sent in a header that this endpoint does not read. " +
			"Trying again helps only with a valid key: send it in the header Authorization, after the word Bearer."}
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
