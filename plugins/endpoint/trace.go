package endpoint

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

type traceKey struct{}

// WithTracedUpstream has the calls of a context tell their upstreams the span that they belong to (W3C Trace Context):
// what else they are told nobody has to fear, but which calls belong together is the caller's affair.
func WithTracedUpstream(ctx context.Context) context.Context {
	return context.WithValue(ctx, traceKey{}, true)
}

// TracesUpstream reports whether WithTracedUpstream was called.
func TracesUpstream(ctx context.Context) bool { return ctx.Value(traceKey{}) != nil }

// traced is the header of a call with the span that it belongs to, and header itself where there is none to be told.
func (c *Call) traced(header http.Header) (_ http.Header, ok bool) {
	if !TracesUpstream(c.caller) || !trace.SpanContextFromContext(c.caller).IsValid() {
		return header, false
	}
	header = header.Clone() // it is shared
	propagation.TraceContext{}.Inject(c.caller, propagation.HeaderCarrier(header))
	return header, true
}
