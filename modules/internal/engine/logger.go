package engine

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// swapLogger is a slog.Handler whose target is replaced at each reload: what lives as long as the engine
// must not keep the first generation's logger.
type swapLogger struct {
	target *atomic.Pointer[slog.Handler]
	with   []func(slog.Handler) slog.Handler // attributes and groups, applied to the target of the moment
}

func newSwapLogger(l *slog.Logger) *swapLogger {
	s := &swapLogger{target: new(atomic.Pointer[slog.Handler])}
	if l == nil {
		l = slog.Default()
	}
	s.set(l)
	return s
}

func (s *swapLogger) set(l *slog.Logger) {
	h := l.Handler()
	s.target.Store(&h)
}

func (s *swapLogger) handler() slog.Handler {
	h := *s.target.Load()
	for _, f := range s.with {
		h = f(h)
	}
	return h
}

func (s *swapLogger) Enabled(ctx context.Context, level slog.Level) bool {
	return (*s.target.Load()).Enabled(ctx, level)
}

func (s *swapLogger) Handle(ctx context.Context, r slog.Record) error {
	return s.handler().Handle(ctx, r)
}

func (s *swapLogger) WithAttrs(attrs []slog.Attr) slog.Handler {
	return s.and(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

func (s *swapLogger) WithGroup(name string) slog.Handler {
	return s.and(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (s *swapLogger) and(f func(slog.Handler) slog.Handler) slog.Handler {
	with := append(append(make([]func(slog.Handler) slog.Handler, 0, len(s.with)+1), s.with...), f)
	return &swapLogger{target: s.target, with: with}
}

var _ slog.Handler = (*swapLogger)(nil)
