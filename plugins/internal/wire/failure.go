package wire

import (
	"errors"
	"time"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/llm"
)

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
	llm.ErrUnfit:       proto.Failure_UNFIT,
}

// maxRetryAfter is the longest that an upstream may ask to wait, in milliseconds: a year.
const maxRetryAfter = int64(365 * 24 * time.Hour / time.Millisecond)

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
	kind, about := kinds[typed.Kind], proto.Failure_NOTHING
	if typed.Kind == llm.ErrAllowance { // older gateways know no better word
		kind, about = proto.Failure_REJECTED, proto.Failure_ALLOWANCE
	}
	if typed.Unreached && typed.Kind == llm.ErrUpstream {
		about = proto.Failure_UNREACHED
	}
	return &proto.Failure{
		Kind:         kind,
		About:        about,
		Basis:        proto.Failure_Basis(typed.Basis),
		Message:      Clip(typed.Message),
		Status:       int32(typed.Status),
		RetryAfterMs: typed.RetryAfter.Milliseconds(),
		RequestId:    Clip(typed.RequestID),
	}
}

// FailureFromProto translates a failure back; nil stays nil.
func FailureFromProto(f *proto.Failure) *llm.Error {
	if f == nil {
		return nil
	}
	out := &llm.Error{
		Kind:       llm.ErrUpstream,
		Message:    Clip(f.GetMessage()),
		Status:     int(f.GetStatus()),
		RetryAfter: time.Duration(min(max(f.GetRetryAfterMs(), 0), maxRetryAfter)) * time.Millisecond,
		RequestID:  Clip(f.GetRequestId()),
	}
	for kind, value := range kinds {
		if value == f.GetKind() {
			out.Kind = kind
		}
	}
	if out.Kind == llm.ErrRejected && f.GetAbout() == proto.Failure_ALLOWANCE {
		out.Kind = llm.ErrAllowance
	}
	out.Unreached = out.Kind == llm.ErrUpstream && f.GetAbout() == proto.Failure_UNREACHED
	if basis := f.GetBasis(); proto.Failure_STATUS < basis && basis <= proto.Failure_WORDING {
		out.Basis = llm.Basis(basis)
	}
	return out
}
