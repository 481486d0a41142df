// Package telemetry tells OpenTelemetry of the attempts of requests: a span for each that belongs to a span of its
// request (Caddy's directive `tracing` makes that), and three metrics where they are switched on. The
// environment variables OTEL_* say where it goes. It is for the engine and the exchange; with neither on, an attempt
// costs a look.
package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
)

const scope = "github.com/fareway/fareway"

// Attempt is one call of an upstream, as it begins.
type Attempt struct {
	ID, Request string
	Route       string
	System      string // see System
	Model       string // that the upstream is asked for
	MaxTokens   int64
	Stream      bool
	Upstream    bool         // it is told of the span
	Content     *llm.Request // for a span with its messages, nil for one without
}

// End is what came of it.
type End struct {
	Failure    string // its kind, "" where there is none
	Usage      *llm.Usage
	Model      string // that the upstream says it was, "" for nothing said
	Finish     llm.FinishReason
	Key        string // of the provider
	UpstreamID string
	All, First time.Duration // First is 0 where no token came
}

// Span is an attempt that runs. A nil one is of an attempt that nobody is told of.
type Span struct {
	span        trace.Span
	instruments *instruments
	attempt     Attempt
	output      *text
}

// Begin begins an attempt: what is called with the context that it returns belongs to it.
func (r *Recorder) Begin(ctx context.Context, describe func() Attempt) (context.Context, *Span) {
	parent, measured := trace.SpanFromContext(ctx), r.instruments.Load()
	if measured == nil && !parent.SpanContext().IsValid() {
		return ctx, nil
	}
	a := describe()
	if a.Upstream {
		ctx = endpoint.WithTracedUpstream(ctx)
	}
	s := &Span{instruments: measured, attempt: a}
	if !parent.IsRecording() {
		return ctx, s
	}
	ctx, s.span = parent.TracerProvider().Tracer(scope).Start(ctx, operationChat+" "+a.Model,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			operationName.String(operationChat), providerName.String(a.System), requestModel.String(a.Model),
			requestStream.Bool(a.Stream), requestTokens.Int64(a.MaxTokens), RouteName.String(a.Route),
			RequestID.String(a.Request), attemptID.String(a.ID)))
	if a.Content != nil {
		s.span.SetAttributes(inputMessages.String(describeMessages(a.Content)))
		s.output = new(text)
	}
	s.attempt.Content = nil // its memory may go before the attempt ends
	return ctx, s
}

// Note takes an event of the reply, whose text the span is to have.
func (s *Span) Note(ev llm.Event) {
	if s != nil && s.output != nil {
		s.output.add(ev)
	}
}

// End ends the attempt.
func (s *Span) End(e End) {
	if s == nil {
		return
	}
	if s.span != nil {
		s.endSpan(&e)
	}
	if s.instruments != nil {
		s.instruments.record(&s.attempt, &e)
	}
}

func (s *Span) endSpan(e *End) {
	attributes := make([]attribute.KeyValue, 0, 12)
	for key, value := range map[attribute.Key]string{responseModel: e.Model, keyName: e.Key, upstreamID: e.UpstreamID,
		errorType: e.Failure} {
		if value != "" {
			attributes = append(attributes, key.String(value))
		}
	}
	if e.Finish != "" {
		attributes = append(attributes, finishReasons.StringSlice([]string{string(e.Finish)}))
	}
	if e.First > 0 && s.attempt.Stream {
		attributes = append(attributes, firstChunk.Float64(e.First.Seconds()))
	}
	if u := e.Usage; u != nil {
		attributes = append(attributes, inputTokens.Int64(prompt(u)))
		for key, count := range map[attribute.Key]*int64{outputTokens: u.Output, cacheRead: u.CacheRead,
			cacheCreation: u.CacheWrite, reasoning: u.Reasoning} {
			if count != nil {
				attributes = append(attributes, key.Int64(*count))
			}
		}
	}
	if s.output != nil {
		attributes = append(attributes, outputMessages.String(s.output.message(e.Finish)))
	}
	s.span.SetAttributes(attributes...)
	if e.Failure != "" {
		s.span.SetStatus(codes.Error, "") // what an upstream says of it may repeat a prompt
	}
	s.span.End()
}

// prompt is all of the input, as the conventions count it.
func prompt(u *llm.Usage) int64 {
	return llm.Tokens(u.Input) + llm.Tokens(u.CacheRead) + llm.Tokens(u.CacheWrite)
}

// instruments are the metrics of attempts. Their labels come from the configuration, and from the list of failures.
type instruments struct {
	usage, duration, first metric.Float64Histogram
	close                  func(context.Context) error
}

func (i *instruments) record(a *Attempt, e *End) {
	ctx := context.Background()
	labels := []attribute.KeyValue{operationName.String(operationChat), providerName.String(a.System),
		requestModel.String(a.Model)}
	same := metric.WithAttributeSet(attribute.NewSet(labels...))
	if e.First > 0 && a.Stream {
		i.first.Record(ctx, e.First.Seconds(), same)
	}
	if u := e.Usage; u != nil {
		i.usage.Record(ctx, float64(prompt(u)), same, metric.WithAttributes(tokenType.String(tokenInput)))
		i.usage.Record(ctx, float64(llm.Tokens(u.Output)), same, metric.WithAttributes(tokenType.String(tokenOutput)))
	}
	if e.Failure == "" {
		i.duration.Record(ctx, e.All.Seconds(), same)
	} else {
		i.duration.Record(ctx, e.All.Seconds(), same, metric.WithAttributes(errorType.String(e.Failure)))
	}
}
