package config

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"github.com/fareway/fareway/plugins/llm"
)

// String is the configuration as indented JSON, without secrets.
func (c *Config) String() string {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Sprintf("printing configuration: %v", err)
	}
	return string(text)
}

// MarshalJSON prints durations in Go's notation.
func (g Gateway) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Namespace        string     `json:"namespace"`
		DefaultProfile   string     `json:"default_profile"`
		RequestTimeout   string     `json:"request_timeout"`
		MaxBody          int64      `json:"max_body"`
		MaxBodyMemory    int64      `json:"max_body_memory"`
		MaxStreams       int64      `json:"max_streams"`
		Keepalive        string     `json:"keepalive"`
		DrainTimeout     string     `json:"drain_timeout"`
		PluginDir        string     `json:"plugin_dir"`
		StructuredOutput bool       `json:"structured_output"`
		ClientModels     ModelNames `json:"client_models"`
		ReceiptAge       string     `json:"receipt_age"`
		ClientStall      string     `json:"client_stall"`
		RequestLog       string     `json:"request_log"`
	}{
		g.Namespace, g.DefaultProfile, g.RequestTimeout.String(), g.MaxBody, g.MaxBodyMemory, g.MaxStreams,
		g.Keepalive.String(), g.DrainTimeout.String(), g.PluginDir, g.StructuredOutput, g.ClientModels,
		g.ReceiptAge.String(), g.ClientStall.String(), g.RequestLog.String(),
	})
}

// MarshalJSON prints the duration in Go's notation.
func (a Affinity) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Mode AffinityMode `json:"mode"`
		TTL  string       `json:"ttl"`
	}{a.Mode, a.TTL.String()})
}

// MarshalJSON prints the duration in Go's notation.
func (d DecisionLog) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Mode        DecisionMode `json:"mode"`
		Keep        string       `json:"keep"`
		MaxRequests int64        `json:"max_requests"`
	}{d.Mode, d.Keep.String(), d.MaxRequests})
}

// MarshalJSON prints the durations in Go's notation.
func (b Breaker) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Failures   int64  `json:"failures"`
		Window     string `json:"window"`
		OpenFor    string `json:"open_for"`
		Outliers   bool   `json:"outliers"`
		RetryAfter bool   `json:"retry_after"`
	}{b.Failures, b.Window.String(), b.OpenFor.String(), b.Outliers, b.RetryAfter})
}

// concurrent is what is printed of how many attempts there may be: as it was written.
func (r *Route) concurrent() any {
	if r.AutoConcurrent {
		return autoConcurrent
	}
	return r.MaxConcurrent
}

// MarshalJSON prints the settings with secrets as ***.
func (p Provider) MarshalJSON() ([]byte, error) {
	shown := p.printable
	if shown == nil {
		shown = []byte(`"` + hidden + `"`)
	}
	return json.Marshal(struct {
		Name         string          `json:"name"`
		Plugin       string          `json:"plugin"`
		SHA256       string          `json:"sha256,omitempty"`
		Settings     json.RawMessage `json:"settings"`
		StartTimeout string          `json:"start_timeout"`
		Carry        Carry           `json:"carry"`
		MaxMemory    int64           `json:"max_memory,omitempty"`
		Confine      Confine         `json:"confine,omitzero"`
		Keys         []Key           `json:"keys,omitempty"`
	}{p.Name, p.Plugin, p.SHA256, shown, p.StartTimeout.String(), p.Carry, p.MaxMemory, p.Confine, p.Keys})
}

// Format prints the provider without secrets under every verb: %+v and %#v would otherwise walk into Settings.
func (p Provider) Format(f fmt.State, _ rune) {
	text, err := p.MarshalJSON()
	if err != nil {
		text = []byte(hidden)
	}
	// An error of the writer reaches whoever gave the writer to fmt.
	_, _ = io.WriteString(f, "provider "+string(text))
}

// LogValue keeps secrets out of logs.
func (p Provider) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(p)) }

// MarshalJSON prints the flags as the list that they came from.
func (r Route) MarshalJSON() ([]byte, error) {
	offers := make([]string, 0, len(offerNames))
	for i, offered := range []bool{r.Tools, r.JSONObject, r.JSONSchema} {
		if offered {
			offers = append(offers, offerNames[i])
		}
	}
	return json.Marshal(struct {
		Name          string      `json:"name"`
		Provider      string      `json:"provider"`
		Model         string      `json:"model"`
		ContextWindow int64       `json:"context_window"`
		MaxOutput     int64       `json:"max_output"`
		Quality       any         `json:"quality"`
		Reasons       bool        `json:"reasons"`
		Offers        []string    `json:"offers"`
		Specialty     []Specialty `json:"specialty"`
		Unsupported   []string    `json:"unsupported"`

		FinishReasons map[string]llm.FinishReason `json:"finish_reasons"`

		MaxConcurrent any      `json:"max_concurrent"`
		Breaker       *Breaker `json:"breaker,omitempty"`
		Metering      Metering `json:"metering"`
		Timeout       string   `json:"timeout"`
		Region        string   `json:"region,omitempty"`
		Retention     string   `json:"retention,omitempty"`
		BillsPast     bool     `json:"bills_past_allowance"`
		Template      *int64   `json:"template_tokens,omitempty"`
		Price         Price    `json:"price"`
		Cost          Price    `json:"cost"`
		LaterPrices   []Dated  `json:"later_prices,omitempty"`
		LaterCosts    []Dated  `json:"later_costs,omitempty"`
	}{
		r.Name, r.Provider, r.Model, r.ContextWindow, r.MaxOutput, r.quality(), r.Reasons, offers,
		append([]Specialty{}, r.Specialty...), append([]string{}, r.Unsupported...),
		r.FinishReasons, r.concurrent(), r.Breaker, r.Metering,
		r.Timeout.String(), r.Region, retentionText(r.Retention), r.BillsPastAllowance, r.TemplateTokens,
		r.Price, r.Cost, r.LaterPrices, r.LaterCosts,
	})
}

// MarshalJSON prints the duration as it is written.
func (q Requires) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Region    []string `json:"region,omitempty"`
		Retention string   `json:"retention,omitempty"`
	}{q.Regions, retentionText(q.Retention)})
}

// UnmarshalJSON reads what MarshalJSON printed.
func (q *Requires) UnmarshalJSON(text []byte) error {
	var v struct {
		Region    []string
		Retention string
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	kept, err := ParseRequires(nil, v.Retention)
	*q = Requires{Regions: v.Region, Retention: kept.Retention}
	return err
}

// Interface guards
var (
	_ fmt.Stringer   = (*Config)(nil)
	_ json.Marshaler = Provider{}

	_ json.Marshaler   = Requires{}
	_ json.Unmarshaler = (*Requires)(nil)
	_ fmt.Formatter    = Provider{}
	_ slog.LogValuer   = Provider{}
)
