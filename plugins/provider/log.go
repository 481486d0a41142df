package provider

import (
	"io"
	"log/slog"
	"strings"
	"time"
)

// newLogger makes a logger whose lines the gateway reads back with their level and attributes: JSON with the
// field names of hclog, which go-plugin hosts understand.
func newLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: slog.LevelDebug, // the gateway's log has a level of its own
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) > 0 {
				return a
			}
			// An attribute of the caller's may have one of these names, but hardly the type too.
			switch v := a.Value.Any().(type) {
			case time.Time:
				if a.Key == slog.TimeKey {
					return slog.String("@timestamp", v.Format("2006-01-02T15:04:05.000000Z07:00"))
				}
			case slog.Level:
				if a.Key == slog.LevelKey {
					return slog.String("@level", strings.ToLower(v.String()))
				}
			case string:
				if a.Key == slog.MessageKey {
					return slog.String("@message", v)
				}
			}
			return a
		},
	}))
}
