package config

// Telemetry is what OpenTelemetry is told beside the spans of attempts.
type Telemetry struct {
	Metrics   bool `json:"metrics"`
	Providers bool `json:"providers"` // their processes send spans, and get the environment variables OTEL_*
	Upstreams bool `json:"upstreams"` // they are sent traceparent
	Content   bool `json:"content"`   // prompts and replies are in spans
}

func (l *loader) telemetry(file *section) (t Telemetry) {
	for _, block := range file.blocks["telemetry"] {
		s := l.open(block, &telemetryGrammar)
		s.flag("metrics", &t.Metrics)
		s.flag("providers", &t.Providers)
		s.flag("upstreams", &t.Upstreams)
		s.flag("content", &t.Content)
	}
	return t
}
