package entry

import (
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/requestlog"
	"github.com/fareway/fareway/modules/internal/telemetry"
)

// recorder remembers what was written of a reply.
type recorder struct {
	http.ResponseWriter
	request *http.Request
	call    *gateway.Call
	status  int
	bytes   int64
	first   time.Time // the first byte of the reply
	aborted bool
}

func newRecorder(w http.ResponseWriter, r *http.Request, call *gateway.Call) *recorder {
	return &recorder{ResponseWriter: w, request: r, call: call}
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status, r.first = status, time.Now()
		if r.hasUnreadBody() {
			gateway.Lingering.Announce(r.ResponseWriter, r.request)
		}
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// hasUnreadBody reports whether nobody has read the request's body to its end.
func (r *recorder) hasUnreadBody() bool { return r.call.BodyRead.IsZero() }

// Unwrap lets http.ResponseController reach Caddy's writer, to flush and to set deadlines.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// finish counts the request, writes its access line, and remembers the request where the ledger has nothing about it:
// never a key, never a prompt, never a path or a header that the client chose.
func (h *Handler) finish(r *http.Request, rec *recorder, call *gateway.Call) {
	now := time.Now()
	var first time.Duration
	if !rec.first.IsZero() {
		first = rec.first.Sub(call.Start)
	}
	if e := h.engine(); e != nil {
		e.Metrics().Request(call.Endpoint, rec.status, first, now.Sub(call.Start))
		if call.Attended(rec.status) {
			e.Metrics().Attended(call.Principal.Account.ID, rec.status, call.Record.Misfit)
		}
		if !call.Record.Held {
			e.LogRequest(requestRecord(call, rec.status))
		}
		ended := endedRequest(call, rec, first, now)
		e.NoteEnded(&ended)
	}
	traceID := describeSpan(r, call)
	room := fieldsPool.Get().(*[]zap.Field)
	fields := append((*room)[:0],
		zap.String("request_id", call.ID),
		zap.String("endpoint", call.Endpoint),
		zap.Int("status", rec.status),
		zap.Duration("duration", now.Sub(call.Start)),
		zap.Int64("bytes", rec.bytes),
	)
	if call.From.IsValid() { // not of a peer on a socket
		fields = append(fields, zap.String("client_ip", call.From.String()))
	}
	if p := call.Principal; p.Account.ID != "" {
		fields = append(fields, zap.String("account", p.Account.Name), zap.String("key_last4", p.Key.Last4))
	}
	if state := call.Record.KeyState; state != "" {
		fields = append(fields, zap.String("key_state", state))
	}
	if call.Kind == gateway.Generate {
		c := call.Record
		fields = append(fields,
			zap.Bool("stream", c.Stream),
			zap.Duration("first_byte", first),
			zap.String("profile", c.Profile),
			zap.String("route", c.Route),
			zap.Int("attempts", c.Attempts),
			zap.Int64("input_tokens", c.Input),
			zap.Int64("output_tokens", c.Output),
			zap.Int64("microcents", c.Microcents),
			zap.Bool("pending", c.Pending),
		)
	}
	if call.Record.Upstream != "" {
		fields = append(fields, zap.String("upstream_request_id", call.Record.Upstream))
	}
	if call.Record.ProviderKey != "" {
		fields = append(fields, zap.String("provider_key", call.Record.ProviderKey))
	}
	if call.Record.Waited > 0 {
		fields = append(fields, zap.Duration("waited", call.Record.Waited))
	}
	if call.Record.Strategy != "" {
		fields = append(fields, zap.String("strategy", call.Record.Strategy))
	}
	if call.Record.Reason != "" {
		fields = append(fields, zap.String("reason", call.Record.Reason))
	}
	if traceID != "" {
		fields = append(fields, zap.String("trace_id", traceID))
	}
	if rec.aborted {
		fields = append(fields, zap.Bool("aborted", true))
	}
	level := zap.InfoLevel
	if call.BodyRead.IsZero() && r.Context().Err() != nil { // Body may be forgotten by now
		silent, ok := h.resets.line(now)
		if !ok {
			level = zap.DebugLevel
		} else if silent > 0 {
			fields = append(fields, zap.Int("given_up_before", silent))
		}
	}
	if line := h.log.Check(level, "request"); line != nil {
		line.Write(fields...)
	}
	clear(fields)
	*room = fields
	fieldsPool.Put(room)
}

// describeSpan says in the span that Caddy has made of the request, if it has, what it was, and returns its trace's id.
func describeSpan(r *http.Request, call *gateway.Call) (id string) {
	span := trace.SpanFromContext(r.Context())
	context := span.SpanContext()
	if !context.IsValid() {
		return ""
	}
	if span.IsRecording() {
		span.SetAttributes(telemetry.RequestID.String(call.ID), telemetry.EndpointName.String(call.Endpoint))
		if account := call.Principal.Account; account.ID != "" {
			span.SetAttributes(telemetry.AccountName.String(account.Name))
		}
		if call.Record.Route != "" {
			span.SetAttributes(telemetry.RouteName.String(call.Record.Route),
				telemetry.Microcents.Int64(call.Record.Microcents))
		}
	}
	return context.TraceID().String()
}

// fieldsPool has the memory of access lines' fields, as many as there can be.
var fieldsPool = sync.Pool{New: func() any { return new(make([]zap.Field, 0, 25)) }}

// requestRecord is a request for the request log.
func requestRecord(call *gateway.Call, status int) requestlog.Record {
	return requestlog.Record{
		ID: call.ID, Time: call.Start.UTC(), Endpoint: call.Endpoint, Status: status, Code: call.Record.Code,
		Limit: call.Record.Limit, Refused: call.Record.Refused,
		Account: call.Principal.Account.ID, Key: call.Principal.Key.ID,
	}
}

// endedRequest is a request for who looks at what has ended just now.
func endedRequest(call *gateway.Call, rec *recorder, first time.Duration, now time.Time) engine.Ended {
	c, p := &call.Record, &call.Principal
	reason := c.Reason
	if reason == "" {
		reason = c.KeyState
	}
	return engine.Ended{
		ID: call.ID, Endpoint: call.Endpoint, Status: rec.status, At: now, Took: now.Sub(call.Start), First: first,
		Account: p.Account.Name, AccountID: p.Account.ID, Last4: p.Key.Last4, Stream: c.Stream, Profile: c.Profile,
		Route: c.Route, Attempts: c.Attempts, Input: c.Input, Output: c.Output, Charged: c.Microcents,
		Pending: c.Pending, Reason: reason, Aborted: rec.aborted,
		Refused: c.Refused,
	}
}
