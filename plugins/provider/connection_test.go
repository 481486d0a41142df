package provider_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm/settings"
	"github.com/fareway/fareway/plugins/provider"
)

func TestConnection(t *testing.T) {
	t.Parallel()
	fresh := func() endpoint.Endpoint {
		return endpoint.Endpoint{Dialect: endpoint.Chat, URL: "https://h/v1",
			Headers: []endpoint.Header{{Name: "Authorization", Value: "Bearer k"}, {Name: "X-Team", Value: "blue"}}}
	}
	var c provider.Connection
	require.NoError(t, provider.DecodeSettings(settings.Values(`{"connect_timeout": "1s", "first_byte_timeout": "1ms",
		"whole_reply_timeout": "2m",
		"idle_timeout": "3s", "proxy": "http://proxy:3128", "proxy_credentials": " user:pass:word@\n", "server_name": "name",
		"headers": {"x-team": "red", "X-Another": "1"}}`), &c))
	got, want := fresh(), fresh()
	require.NoError(t, c.Apply(&got))
	want.Timeouts = endpoint.Timeouts{Connect: time.Second, FirstByte: time.Millisecond, Whole: 2 * time.Minute,
		Idle: 3 * time.Second}
	want.Proxy, want.TLS.ServerName = "http://user:pass%3Aword%40@proxy:3128", "name"
	want.Headers = []endpoint.Header{{Name: "Authorization", Value: "Bearer k"}, {Name: "X-Another", Value: "1"},
		{Name: "X-Team", Value: "red"}}
	require.Equal(t, want, got)

	got = fresh()
	require.NoError(t, new(provider.Connection).Apply(&got))
	require.Equal(t, fresh(), got, "nothing is set")
	got = fresh()
	require.NoError(t, (&provider.Connection{AlwaysStream: true}).Apply(&got))
	require.True(t, got.AlwaysStream)
	for _, streams := range []endpoint.Endpoint{{AlwaysStream: true}, {Timings: true}} { // by nature
		streams.Dialect, streams.URL = endpoint.Chat, "https://h/v1"
		require.ErrorContains(t, (&provider.Connection{WholeReplyTimeout: time.Minute}).Apply(&streams), "has no use")
	}

	for wrong, c := range map[string]provider.Connection{
		"connect_timeout":    {ConnectTimeout: time.Microsecond},
		"first_byte_timeout": {FirstByteTimeout: -time.Second},
		"idle_timeout":       {IdleTimeout: 1},
		"whole_reply_timeout must be at least \"1ms\"": {WholeReplyTimeout: 1},
		"whole_reply_timeout must be at least first_byte_timeout": {WholeReplyTimeout: time.Second,
			FirstByteTimeout: time.Minute},
		"whole_reply_timeout has no use": {WholeReplyTimeout: time.Minute, AlwaysStream: true},
		"Content-Length":                 {Headers: map[string]string{"content-length": "5"}},
		"X-A is not legal":               {Headers: map[string]string{"X-A": "geheim\n"}},
		"proxy must be":                  {Proxy: "ftp://geheim"},
	} {
		got := fresh()
		err := c.Apply(&got)
		require.ErrorContains(t, err, wrong)
		require.NotContains(t, err.Error(), "geheim")
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	got, err := provider.Secret("api_key", " k-1~!\r\n")
	require.NoError(t, err)
	require.Equal(t, "k-1~!", got)
	for _, value := range []string{"geheim geheim", "geheim\x7f", "geheimä", "geheim\ngeheim"} {
		_, err := provider.Secret("api_key", value)
		require.ErrorContains(t, err, "setting api_key")
		require.NotContains(t, err.Error(), "geheim")
	}
}

// A path in place of what is in the file gets a hint, and a time-out of days is a slip.
func TestConnectionHints(t *testing.T) {
	t.Parallel()
	e := endpoint.Endpoint{Dialect: endpoint.Chat, URL: "https://h/v1"}
	for want, c := range map[string]provider.Connection{
		`setting ca must be PEM, which begins with -----BEGIN; for what is in a file write ca = file("path")`: {
			CA: "/etc/ca.pem"},
		`write client_certificate = file("path")`:            {ClientCertificate: "client.pem", ClientKey: "client.key"},
		"setting first_byte_timeout must be at most \"24h\"": {FirstByteTimeout: 24*time.Hour + 1},
		"setting idle_timeout must be at most":               {IdleTimeout: 25 * time.Hour},
	} {
		at := e
		require.ErrorContains(t, c.Apply(&at), want)
		require.NotContains(t, c.Apply(&at).Error(), "/etc")
	}
	at := e
	day := provider.Connection{FirstByteTimeout: 24 * time.Hour}
	require.NoError(t, day.Apply(&at))
}
