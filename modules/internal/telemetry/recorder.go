package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	prometheusbridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Recorder tells of attempts. The zero one tells of those only whose request has a span.
type Recorder struct {
	Version  string
	Gatherer prometheus.Gatherer // of the metrics that are sent along
	Log      *slog.Logger

	instruments atomic.Pointer[instruments] // nil while there are no metrics
	mu          sync.Mutex                  // of Measure
	ending      sync.WaitGroup
}

// making is held while a reader is made: what it reads besides is one variable of its package.
var making sync.Mutex

// endTime is how long the last metrics, or spans, may take to their collector.
const endTime = 5 * time.Second

// Measure switches the metrics on or off. It does not wait for a collector; one that cannot be used is logged, and the
// gateway goes on without metrics.
func (r *Recorder) Measure(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	errorsTo.Store(r.Log)
	running := r.instruments.Load()
	switch {
	case on && running == nil:
		made, err := r.makeInstruments(context.Background())
		if err != nil {
			r.Log.Error("sending metrics by OTLP; look at the environment variables OTEL_*, and start the gateway again",
				"error", err)
			return
		}
		r.instruments.Store(made)
	case !on && running != nil:
		r.instruments.Store(nil)
		r.ending.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), endTime)
			defer cancel()
			if err := running.close(ctx); err != nil {
				r.Log.Warn("sending the last metrics by OTLP", "error", err)
			}
		})
	}
}

// Close sends what there is, and ends.
func (r *Recorder) Close() {
	r.Measure(false)
	r.ending.Wait()
}

func (r *Recorder) makeInstruments(ctx context.Context) (*instruments, error) {
	producer := prometheusbridge.NewMetricProducer(prometheusbridge.WithGatherer(r.Gatherer))
	making.Lock()
	defer making.Unlock()
	autoexport.WithFallbackMetricProducer(func(context.Context) (sdkmetric.Producer, error) { return producer, nil })
	reader, err := autoexport.NewMetricReader(ctx)
	if err != nil {
		return nil, err
	}
	about, err := describeProcess(ctx, "fareway", r.Version)
	if err != nil {
		return nil, err
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(about))
	meter := provider.Meter(scope, metric.WithInstrumentationVersion(r.Version))
	made := &instruments{close: provider.Shutdown}
	var errs [3]error
	made.usage, errs[0] = meter.Float64Histogram(metricUsage, metric.WithUnit("{token}"),
		metric.WithDescription("Number of input and output tokens used."),
		metric.WithExplicitBucketBoundaries(tokenBuckets...))
	made.duration, errs[1] = meter.Float64Histogram(metricDuration, metric.WithUnit("s"),
		metric.WithDescription("GenAI operation duration."), metric.WithExplicitBucketBoundaries(durationBuckets...))
	made.first, errs[2] = meter.Float64Histogram(metricFirstChunk, metric.WithUnit("s"),
		metric.WithDescription("Time to receive the first chunk."),
		metric.WithExplicitBucketBoundaries(firstChunkBuckets...))
	return made, errors.Join(errs[:]...)
}

// describeProcess is what spans and metrics say of the process that they come from. OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES go before what we say.
func describeProcess(ctx context.Context, service, version string) (*resource.Resource, error) {
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", service), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describing the process: %w", err)
	}
	return about, nil
}

// SpansOfProvider makes a tracer provider for a provider's process, where the gateway has handed it the variables that
// say where spans go; nil where it has not. close sends the last ones.
func SpansOfProvider(ctx context.Context, name, version string) (p *sdktrace.TracerProvider, end func(), err error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" &&
		os.Getenv("OTEL_TRACES_EXPORTER") == "" {
		return nil, func() {}, nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return nil, func() {}, fmt.Errorf("sending spans by OTLP: %w", err)
	}
	about, err := describeProcess(ctx, "fareway-provider-"+name, version)
	if err != nil {
		return nil, func() {}, err
	}
	p = sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(time.Second)),
		sdktrace.WithResource(about))
	return p, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		_ = p.Shutdown(ctx) // the process ends; there is nobody left to tell
	}, nil
}
