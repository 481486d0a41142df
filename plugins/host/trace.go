package host

import (
	"context"
	"os"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/internal/wire"
)

// telemetryVariables are those of the gateway's environment that say where spans go; not what the gateway is called.
func telemetryVariables() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return !strings.HasPrefix(v, "OTEL_") || strings.HasPrefix(v, "OTEL_SERVICE_NAME=")
	})
}

// withTrace hands the span that a call belongs to on to the plugin's process, as gRPC metadata, and whether its
// upstream is to be told of it. Without a span it costs a look.
func withTrace(ctx context.Context) context.Context {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	carrier := make(propagation.MapCarrier, 2)
	propagation.TraceContext{}.Inject(ctx, carrier)
	pairs := make([]string, 0, 6)
	for name, value := range carrier {
		pairs = append(pairs, name, value)
	}
	if endpoint.TracesUpstream(ctx) {
		pairs = append(pairs, wire.TraceUpstream, "1")
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}
