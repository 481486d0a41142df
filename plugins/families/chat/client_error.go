package chat

import (
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// DecodeError makes a typed error of an upstream's reply that is not a 2xx: its status, its Retry-After
// header ("" if there is none; seconds or a date, RFC 9110 section 10.2.3) and its body, in whatever form.
func DecodeError(status int, retryAfter string, body []byte) *llm.Error {
	return reply.Refusal(status, retryAfter, body)
}
