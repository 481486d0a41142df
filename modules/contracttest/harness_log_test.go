package contracttest

import (
	"bytes"
	"encoding/json"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Access waits for a request's access line, which is written when everything of it is over.
func (s *service) Access(requestID string) map[string]any {
	s.t.Helper()
	return s.Log.Await(s.t, func(line map[string]any) bool {
		return line["msg"] == "request" && line["request_id"] == requestID
	})
}

// gauge is the value of a metric without labels.
func (s *service) gauge(t testing.TB, name string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Engine.Metrics().Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Errorf("reading metrics: %v", err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Errorf("there is no metric %s", name)
	return 0
}

// logBuffer keeps everything that was logged, one JSON object a line.
type logBuffer struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	lines   []map[string]any // what is decoded of buf
	decoded int              // bytes of it
	changed chan struct{}    // closed and replaced at every line; nil before the first wait
}

// entry is what the outermost handler logs to it with, as Caddy gives it one.
func (b *logBuffer) entry() *zap.Logger {
	keys := zapcore.EncoderConfig{MessageKey: "msg", LevelKey: "level", EncodeLevel: zapcore.CapitalLevelEncoder,
		EncodeDuration: zapcore.NanosDurationEncoder}
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(keys), zapcore.AddSync(b), zap.DebugLevel))
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Lines are the decoded lines for which match is true, oldest first.
func (b *logBuffer) Lines(t testing.TB, match func(line map[string]any) bool) []map[string]any {
	t.Helper()
	b.mu.Lock()
	for text := range bytes.Lines(b.buf.Bytes()[b.decoded:]) {
		var line map[string]any
		if err := json.Unmarshal(text, &line); err != nil {
			t.Errorf("a line of log that is no JSON: %s", text)
			break
		}
		b.decoded += len(text)
		b.lines = append(b.lines, line)
	}
	lines := b.lines
	b.mu.Unlock()
	var found []map[string]any
	for _, line := range lines {
		if match(line) {
			found = append(found, line)
		}
	}
	return found
}

// Await waits for the first line for which match is true.
func (b *logBuffer) Await(t testing.TB, match func(line map[string]any) bool) map[string]any {
	t.Helper()
	ctx := within(t)
	for {
		b.mu.Lock()
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		if found := b.Lines(t, match); len(found) > 0 {
			return found[0]
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.NoError(t, ctx.Err(), "waiting for a line of log; there is: %s", b)
		}
	}
}
