package wire

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/llm"
)

// maxMessage bounds the message of a failure, in bytes: some upstreams answer an error with a web page.
const maxMessage = 4 << 10

// kinds pairs the failures of the protocol with the kinds of the model. ErrDied is missing: only the host
// can say it.
var kinds = map[llm.ErrorKind]proto.Failure_Kind{
	llm.ErrUpstream:    proto.Failure_UPSTREAM,
	llm.ErrRejected:    proto.Failure_REJECTED,
	llm.ErrPolicy:      proto.Failure_POLICY,
	llm.ErrContext:     proto.Failure_CONTEXT_OVERFLOW,
	llm.ErrCapacity:    proto.Failure_CAPACITY,
	llm.ErrCredentials: proto.Failure_CREDENTIALS,
	llm.ErrProtocol:    proto.Failure_PROTOCOL,
	llm.ErrBroken:      proto.Failure_BROKEN,
	llm.ErrCanceled:    proto.Failure_CANCELED,
	llm.ErrQuota:       proto.Failure_QUOTA,
}

// FailureToProto translates an error of a provider: an *llm.Error by its kind, any other as a failure of
// the upstream. nil stays nil.
func FailureToProto(err error) *proto.Failure {
	if err == nil {
		return nil
	}
	var typed *llm.Error
	if !errors.As(err, &typed) {
		typed = &llm.Error{Kind: llm.ErrUpstream, Message: err.Error()}
	}
	return &proto.Failure{
		Kind:         kinds[typed.Kind],
		Message:      clip(typed.Message),
		Status:       int32(typed.Status),
		RetryAfterMs: typed.RetryAfter.Milliseconds(),
		RequestId:    clip(typed.RequestID),
	}
}

// FailureFromProto translates a failure back; nil stays nil.
func FailureFromProto(f *proto.Failure) *llm.Error {
	if f == nil {
		return nil
	}
	out := &llm.Error{
		Kind:       llm.ErrUpstream,
		Message:    f.GetMessage(),
		Status:     int(f.GetStatus()),
		RetryAfter: time.Duration(f.GetRetryAfterMs()) * time.Millisecond,
		RequestID:  f.GetRequestId(),
	}
	for kind, value := range kinds {
		if value == f.GetKind() {
			out.Kind = kind
		}
	}
	return out
}

// clip makes s valid UTF-8, which the protocol's strings must be, and no longer than maxMessage.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxMessage {
		return s
	}
	end := maxMessage
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "..."
}
