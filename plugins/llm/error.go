package llm

import (
	"errors"
	"fmt"
	"time"
)

// ErrorKind says what went wrong with an attempt. The gateway decides by it whether to try another route
// and what the client is told.
type ErrorKind string

const (
	// ErrUpstream: the upstream failed: 5xx, connection refused or broken off before the reply, timed out.
	ErrUpstream ErrorKind = "upstream"
	// ErrRejected: the upstream refused this request for its form (a 400 that is neither policy nor
	// length). Says nothing about the upstream's health.
	ErrRejected ErrorKind = "rejected"
	// ErrUnfit: the route cannot carry the request: its upstream refuses something of it that cannot be said otherwise
	// (GAP-127), so that it was not sent, or said so itself, as of more tools, messages or images than it takes
	// (GAP-126). Says nothing about the upstream. Another route may be tried.
	ErrUnfit ErrorKind = "unfit"
	// ErrPolicy: the upstream declined by its content policy before replying. No other route is tried.
	ErrPolicy ErrorKind = "policy"
	// ErrContext: the request is too long for the upstream model. A larger route may be tried.
	ErrContext ErrorKind = "context_overflow"
	// ErrCapacity: the upstream is rate limiting; RetryAfter may say for how long.
	ErrCapacity ErrorKind = "capacity"
	// ErrAllowance: this request alone is larger than a rate limit of the upstream, or than the operator's credit there,
	// leaves (GAP-126). It says nothing of the upstream for other requests, and nothing of the key. Another route may be
	// tried.
	ErrAllowance ErrorKind = "allowance"
	// ErrQuota: the operator's quota or credit at the upstream is used up. Unlike a rate limit, that does not pass by
	// itself soon. The operator is alerted.
	ErrQuota ErrorKind = "quota"
	// ErrCredentials: the upstream refused the operator's credentials. The operator is alerted.
	ErrCredentials ErrorKind = "credentials"
	// ErrProtocol: the provider broke the plugin protocol, or what it sent cannot be a reply.
	ErrProtocol ErrorKind = "protocol"
	// ErrBroken: the connection to the upstream broke in mid-reply, without a terminal message.
	ErrBroken ErrorKind = "broken"
	// ErrDied: the provider's process died. Only the host says this, never a provider.
	ErrDied ErrorKind = "died"
	// ErrCanceled: the caller left. Only the host says this, never a provider.
	ErrCanceled ErrorKind = "canceled"
)

// Basis says how the kind of a failure is known.
type Basis uint8

const (
	// ByStatus: the upstream's status says no more, or the provider does not say.
	ByStatus Basis = iota
	// ByCode: a code or a type of the upstream says so. Of a key: it holds for whatever is asked with it.
	ByCode
	// ByWording: nothing but the text of a message says so. The gateway benches no key for that alone.
	ByWording
)

// Error is a typed failure of an attempt. Message is for the operator's log; it never reaches a client
// (GAP-96), and it must not hold a credential or any part of a prompt.
type Error struct {
	Kind       ErrorKind
	Message    string
	Status     int           // the upstream's HTTP status, 0 if there was none
	RetryAfter time.Duration // how long the upstream asked to wait, at least AtOnce; 0 if it did not say
	Basis      Basis         // how the kind is known
	// Unreached: there was no connection (the name, the address or TLS), or what answered at the address is no API: a
	// page for people, or a redirect to elsewhere.
	Unreached bool
	RequestID string // what the upstream calls the request, "" if it has no name
}

// AtOnce is the RetryAfter of an upstream that says that it takes more now. It is as short as the plugin protocol
// knows.
const AtOnce = time.Millisecond

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s: %s (status %d)", e.Kind, e.Message, e.Status)
	}
	return fmt.Sprintf("%s: %s", e.Kind, e.Message)
}

// Errorf makes an Error.
func Errorf(kind ErrorKind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// KindOf returns the kind of err, ErrUpstream for one that is not an *Error, and "" for nil.
func KindOf(err error) ErrorKind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ErrUpstream
}
