package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/families"
)

// InternalError is the refusal when the service itself failed (ERR-24).
func InternalError() *families.Error {
	return &families.Error{Status: http.StatusInternalServerError, Code: families.InternalError,
		Message: "The service failed. Trying again may help." + families.Support}
}

// Overloaded is a 429 without headers: room was briefly exhausted.
func Overloaded() *families.Error {
	return &families.Error{Status: http.StatusTooManyRequests, Code: families.RateLimitExceeded,
		Message: "Too many large requests are in progress. Trying again in a few seconds helps; so does a smaller request."}
}

// ReasonLeft is the reason of a request whose client did not wait for its end.
const ReasonLeft = "client_left"

// storeRetryAfter is what the one 503 with Retry-After says, in seconds (GAP-45).
const storeRetryAfter = 5

// LedgerError logs why the ledger failed, and is the refusal for it: when the ledger is away, the one 503 that
// says when to come back (GAP-45).
func (c *Call) LedgerError(doing string, err error) *families.Error {
	if errors.Is(err, context.Canceled) {
		// The client has left while it waited: that is no failure, and there is nobody to tell.
		c.Record.Reason = ReasonLeft
		panic(http.ErrAbortHandler)
	}
	if errors.Is(err, ledger.ErrLost) {
		c.Work.Engine().LogLost(doing, c.ID, err)
	} else {
		c.Work.Engine().Logger().Error(doing, "request_id", c.ID, "error", err)
	}
	if errors.Is(err, ledger.ErrUnavailable) {
		return &families.Error{Status: http.StatusServiceUnavailable, Code: families.UpstreamError,
			RetryAfter: storeRetryAfter,
			Message:    "The service cannot reach its ledger at the moment. Try again in a few seconds." + families.Support}
	}
	return InternalError()
}
