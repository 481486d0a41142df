package engine

import (
	"encoding/json"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/telemetry"
)

// Telemetry tells OpenTelemetry of attempts.
func (c *core) Telemetry() *telemetry.Recorder { return c.telemetry }

// System is what OpenTelemetry calls the service behind a provider.
func (g *Generation) System(provider string) string { return g.systems[provider] }

// systemOf looks for the preset of a plugin that has such a setting.
func systemOf(p *config.Provider) string {
	var settings struct {
		Preset string `json:"preset"`
	}
	_ = json.Unmarshal([]byte(p.Settings), &settings) // without one, or with one of another kind, there is none
	return telemetry.System(p.Plugin, settings.Preset)
}
