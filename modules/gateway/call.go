package gateway

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/requestlog"
	"github.com/fareway/fareway/plugins/families"
)

// Kind says what an endpoint does.
type Kind string

const (
	Generate    Kind = "generate"
	CountTokens Kind = "count_tokens"
	Models      Kind = "models"
	Model       Kind = "model"
	Account     Kind = "account"
)

// Call is one request on its way through the handlers: entry makes it, auth and limits add to it, exchange
// answers it, and entry writes the access line from it. It is used by the request's goroutine only.
type Call struct {
	ID       string    // X-Request-Id
	Start    time.Time // the first byte
	Kind     Kind      // "" when the path or the method is not in the table
	Endpoint string    // the metric label: a name of the path table, never a path that was sent
	ModelID  string    // Kind Model: the id in the path, decoded
	// Family gives errors their shape and, for Generate and CountTokens, reads and writes the bodies.
	Family families.Server

	Work      *engine.Work
	From      netip.Addr       // the client's address, for limits; the zero Addr for a peer without one
	Principal ledger.Principal // after auth
	Body      []byte           // after limits, for POST
	// Document is Body, nil where Misformed says what is wrong with it, for its turn (GAP-01 steps 8 and 9).
	Document  *families.Document
	Misformed *families.Error
	// Forget is called by whoever needs Body no more before the reply ends: its memory can go. nil without a body.
	Forget func()
	// BodyRead is when the body had been read: the total time limit counts from it (GAP-18).
	BodyRead time.Time

	Record Record

	link Link // the last handler that has taken it
}

// NewID makes an X-Request-Id (GAP-91): what a client sends under that name is never used. Like a UUID of
// version 7 (RFC 9562) it begins with the time, in milliseconds, so that the ledger writes the rows of new
// requests side by side and not each into a page of its own. The other 80 bits are random.
func NewID(now time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(now.UnixMilli())<<16)
	rand.Read(b[6:]) // never fails (crypto/rand)
	return "req_" + hex.EncodeToString(b[:])
}

// What the access line says of a key that opened no account. Nothing of its text is said unless the ledger knows
// it: it may be another service's secret.
const (
	KeyMissing   = "missing"   // or in a header that the endpoint does not read
	KeyMalformed = "malformed" // no key of ours, or mistyped
	KeyUnknown   = "unknown"
	KeyRevoked   = "revoked"
	KeyExpired   = "expired"
	KeyProbe     = "probe" // none of an account's: see AnswerProbe
)

// Record is what the access line tells of a call beyond its status.
type Record struct {
	Stream   bool
	Profile  string
	Route    string // the route that answered, or the last one that was tried
	Attempts int
	KeyState string        // why the key opened nothing: a KeyMissing and so on, "" where it did
	Waited   time.Duration // for routes that said when they are back (GAP-139)
	Strategy string        // its name, "" for none
	// ProviderKey is the name of the provider's key that the last attempt was made with, "" where it has none.
	ProviderKey string
	Input       int64 // tokens of the whole prompt, as charged
	Output      int64 // tokens
	Microcents  int64 // charged
	Pending     bool
	Reason      string // the settlement's reason
	Held        bool   // the ledger has the request: it was admitted
	Misfit      bool   // all attempts that failed did because their routes cannot take this request
	Code        string // of the error reply
	Limit       string // what X-RateLimit-Reason said
	// Refused is the arithmetic of a refusal for money or a rate, nil without one.
	Refused  *requestlog.Refused
	Upstream string // what the upstream calls the request of the last attempt, "" if it has no name for it
}

// Attended reports whether the request, which ended with status, came as far as the routes, or would have if the
// gateway had one for anybody: what a configuration can be judged by. One that no route fits says as much of the
// request.
func (c *Call) Attended(status int) bool {
	return c.Record.Held || c.Kind == Generate && c.Principal.Account.ID != "" &&
		status >= http.StatusInternalServerError && c.Record.Code != string(families.FeatureUnavailable)
}

type callKey struct{}

// WithCall returns r with c on its context.
func WithCall(r *http.Request, c *Call) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callKey{}, c))
}

// Refuse writes an error reply in the family's shape (ERR-01 to ERR-08).
func (c *Call) Refuse(w http.ResponseWriter, e *families.Error) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if e.Final() {
		h.Set("X-Should-Retry", "false")
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	if e.Reason != "" {
		h.Set("X-RateLimit-Reason", e.Reason)
	}
	if e.Allow != "" {
		h.Set("Allow", e.Allow)
	}
	c.Record.Code, c.Record.Limit = string(e.Code), e.Reason
	if c.Record.Reason == "" {
		c.Record.Reason = string(e.Code)
	}
	body := c.Family.AppendError(nil, e)
	h.Set("Content-Length", strconv.Itoa(len(body))) // with it, the reply is whole before the handler ends (Linger)
	w.WriteHeader(e.Status)
	// The client may be gone; there is nobody left to tell.
	_, _ = w.Write(body)
	return nil
}
