package provider

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/internal/wire"
)

// tracerName is what spans of the SDK say that they are made by.
const tracerName = "github.com/fareway/fareway/plugins/provider"

// traced is the context of an attempt with the gateway's span in it, if there is one: what a provider makes of it with
// OpenTelemetry belongs below that. Where its program has set a tracer provider (otel.SetTracerProvider; the built-in
// ones do where `telemetry` says so), Generate has a span, which end ends.
func traced(ctx context.Context) (_ context.Context, end func(error)) {
	received, ok := metadata.FromIncomingContext(ctx)
	if !ok || len(received.Get("traceparent")) == 0 {
		return ctx, func(error) {}
	}
	carrier := make(propagation.MapCarrier, 2)
	for _, name := range (propagation.TraceContext{}).Fields() {
		if values := received.Get(name); len(values) > 0 {
			carrier[name] = values[0]
		}
	}
	ctx = propagation.TraceContext{}.Extract(ctx, carrier)
	if len(received.Get(wire.TraceUpstream)) > 0 {
		ctx = endpoint.WithTracedUpstream(ctx)
	}
	ctx, span := otel.Tracer(tracerName).Start(ctx, "generate", trace.WithSpanKind(trace.SpanKindServer))
	return ctx, func(err error) {
		if err != nil { // its text may repeat what an upstream said, and so a piece of a prompt
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
