package provider_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm/settings"
	"github.com/fareway/fareway/plugins/provider"
)

type target struct {
	URL    string `hcl:"url" doc:"Where."`
	Weight uint8  `hcl:"weight,optional" doc:"How often. Default: 1."`
}

type retry struct {
	Attempts int           `hcl:"attempts,optional" doc:"How many."`
	Pause    time.Duration `hcl:"pause,optional" doc:"How long."`
	Limit    time.Duration `hcl:"limit,optional"`
}

// Docs implements provider.Documented.
func (retry) Docs() map[string]string {
	return map[string]string{"pause": "Not this: the tag is nearer.", "limit": "At most so long."}
}

// undocumented has documentation of what it has not.
type undocumented struct {
	Key string `hcl:"key"`
}

// Docs implements provider.Documented.
func (*undocumented) Docs() map[string]string { return map[string]string{"kye": "The key."} }

type everything struct {
	Key         string            `hcl:"api_key" secret:"true" doc:"The key."`
	Enabled     bool              `hcl:"enabled,optional"`
	Share       float64           `hcl:"share,optional"`
	Temperature *float64          `hcl:"temperature,optional"`
	Timeout     time.Duration     `hcl:"timeout,optional"`
	Models      []string          `hcl:"models,optional"`
	Headers     map[string]string `hcl:"headers,optional"`
	Retry       retry             `hcl:"retry,block" doc:"When to try again."`
	Proxy       *target           `hcl:"proxy,block"`
	Targets     []target          `hcl:"target,block"`

	Internal func()
}

func TestTheSchemaComesFromTheTags(t *testing.T) {
	t.Parallel()
	targetSchema := settings.Schema{Attributes: []settings.Attribute{
		{Name: "url", Type: settings.String, Required: true, Doc: "Where."},
		{Name: "weight", Type: settings.Number, Doc: "How often. Default: 1."},
	}}
	schema, err := provider.SettingsSchema(&everything{})
	require.NoError(t, err)
	require.Equal(t, settings.Schema{
		Attributes: []settings.Attribute{
			{Name: "api_key", Type: settings.String, Required: true, Secret: true, Doc: "The key."},
			{Name: "enabled", Type: settings.Bool},
			{Name: "share", Type: settings.Number},
			{Name: "temperature", Type: settings.Number},
			{Name: "timeout", Duration: true, Type: settings.String},
			{Name: "models", Type: settings.ListString},
			{Name: "headers", Type: settings.MapString},
		},
		Blocks: []settings.Block{
			{Name: "retry", Doc: "When to try again.", Schema: settings.Schema{Attributes: []settings.Attribute{
				{Name: "attempts", Type: settings.Number, Doc: "How many."},
				{Name: "pause", Duration: true, Type: settings.String, Doc: "How long."},
				{Name: "limit", Duration: true, Type: settings.String, Doc: "At most so long."},
			}}},
			{Name: "proxy", Schema: targetSchema},
			{Name: "target", Many: true, Schema: targetSchema},
		},
	}, schema)
}

// lender is embedded by those that borrow its settings.
type lender struct {
	Wait time.Duration `hcl:"wait,optional" doc:"How long."`
	Word string        `hcl:"word,optional"`
}

// Docs implements provider.Documented.
func (lender) Docs() map[string]string { return map[string]string{"word": "One of two."} }

type borrower struct {
	Key string `hcl:"key"`
	lender
}

// Docs implements provider.Documented.
func (borrower) Docs() map[string]string { return map[string]string{"key": "The key."} }

// Choices implements provider.Choosy.
func (borrower) Choices() map[string][]string { return map[string][]string{"word": {"yes", "no"}} }

// unchoosy has choices of what it has not.
type unchoosy struct {
	Key int `hcl:"key"`
}

// Choices implements provider.Choosy.
func (unchoosy) Choices() map[string][]string { return map[string][]string{"key": {"1"}} }

func TestSettingsAreLent(t *testing.T) {
	t.Parallel()
	schema, err := provider.SettingsSchema(&borrower{})
	require.NoError(t, err)
	require.Equal(t, settings.Schema{Attributes: []settings.Attribute{
		{Name: "key", Type: settings.String, Required: true, Doc: "The key."},
		{Name: "wait", Type: settings.String, Duration: true, Doc: "How long."},
		{Name: "word", Type: settings.String, Doc: "One of two.", OneOf: []string{"yes", "no"}},
	}}, schema)
	got := borrower{lender: lender{Word: "no"}}
	require.NoError(t, provider.DecodeSettings(settings.Values(`{"key": "k", "wait": "2s"}`), &got))
	require.Equal(t, borrower{Key: "k", lender: lender{Wait: 2 * time.Second, Word: "no"}}, got)
	err = provider.DecodeSettings(settings.Values(`{"key": "k", "wait": "soon"}`), &got)
	require.ErrorContains(t, err, "setting wait")
}

func TestStructsThatCannotBeSettings(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]any{
		"a pointer to a struct is needed":                                        7,
		`undocumented.Docs has "kye", which is no setting of it`:                 &undocumented{},
		`unchoosy.Choices has "key", which is no setting of it that is a string`: &unchoosy{},
		`lender.Wait are both the setting "wait"`: &struct {
			Long string `hcl:"wait"`
			lender
		}{},
		"not exported": &struct {
			key string `hcl:"key"`
		}{},
		"use lower-case words": &struct {
			Key string `hcl:"Key"`
		}{},
		`are both the setting "key"`: &struct {
			A string `hcl:"key"`
			B string `hcl:"key"`
		}{},
		"after the comma": &struct {
			A string `hcl:"a,optinal"`
		}{},
		"cannot have the type chan": &struct {
			A chan int `hcl:"a"`
		}{},
		"is a block of type string": &struct {
			A string `hcl:"a,block"`
		}{},
	} {
		_, err := provider.SettingsSchema(v)
		require.ErrorContains(t, err, want)
	}
}

func TestSettingsAreFilledOverTheDefaults(t *testing.T) {
	t.Parallel()
	got := everything{Timeout: time.Minute, Headers: map[string]string{"a": "b"},
		Retry: retry{Attempts: 3, Pause: time.Second}}
	require.NoError(t, provider.DecodeSettings(settings.Values(`{
		"api_key": "k", "share": 0.5, "temperature": 0, "models": ["x"], "headers": {"c": "d"}, "enabled": null,
		"retry": {"pause": "250ms"},
		"target": [{"url": "u"}, {"url": "v", "weight": 255}]
	}`), &got))
	zero := 0.0
	require.Equal(t, everything{
		Key: "k", Share: 0.5, Temperature: &zero, Timeout: time.Minute, Models: []string{"x"},
		Headers: map[string]string{"c": "d"},
		Retry:   retry{Attempts: 3, Pause: 250 * time.Millisecond},
		Targets: []target{{URL: "u"}, {URL: "v", Weight: 255}},
	}, got)
}

func TestEveryMistakeIsReportedByName(t *testing.T) {
	t.Parallel()
	err := provider.DecodeSettings(settings.Values(`{
		"enabled": "hunter2", "share": "hunter2", "timeout": "hunter2", "models": "hunter2", "headers": ["hunter2"],
		"retry": {"attempts": 1.5, "unknown": "hunter2"}, "proxy": "hunter2", "target": [{"url": "u"}, {"weight": 256}],
		"mystery": "hunter2"
	}`), &everything{})
	require.Error(t, err)
	for _, want := range []string{
		"setting api_key is required",
		"setting enabled must be true or false",
		"setting share must be a number",
		`setting timeout must be a duration, such as "250ms"`,
		"setting models must be a list of strings",
		"setting headers must be a map of strings",
		"setting retry.attempts must be a whole number",
		"setting retry.unknown is unknown",
		"setting proxy must be a block",
		"setting target[1].url is required",
		"setting target[1].weight must be a whole number from 0 that fits 8 bits",
		"setting mystery is unknown",
	} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "hunter2", "a value may be a secret")
}

func TestNoSettingsAreAnEmptyObject(t *testing.T) {
	t.Parallel()
	require.NoError(t, provider.DecodeSettings(nil, &retry{}))
	require.Error(t, provider.DecodeSettings(settings.Values(`[]`), &retry{}))
	require.Error(t, provider.DecodeSettings(settings.Values(`null`), &retry{}))
	require.Error(t, provider.DecodeSettings(nil, retry{}))
}

func FuzzDecodeSettings(f *testing.F) {
	f.Add([]byte(`{"api_key":"k","retry":{"attempts":1},"target":[{"url":"u","weight":2}]}`))
	f.Add([]byte(`{"headers":{"a":"b"},"temperature":1e9,"models":[]}`))
	f.Add([]byte(`{"target":{"url":1},"proxy":[]}`))
	f.Fuzz(func(t *testing.T, values []byte) {
		var got everything
		if err := provider.DecodeSettings(values, &got); err != nil {
			require.True(t, strings.Contains(err.Error(), "setting"), "an error names what it is about")
			return
		}
		require.NotNil(t, got)
	})
}
