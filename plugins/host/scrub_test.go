package host_test

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// What a plugin is told as a secret stands in no log and no error, whatever it does with it.
func TestSecretsOfAPluginAreNotLogged(t *testing.T) {
	t.Parallel()
	const secret = "sk/this is+\"secret\"-0123456789"
	var log *strings.Builder
	h := newHost(t, func(o *host.Options) { log = capture(o) })
	s := spec("script")
	s.Settings = settings.Values(`{"key": ` + strconv.Quote(secret) + `, "greeting": "good morning"}`)
	p := acquire(t, h, s)
	_, err := talk(t.Context(), p, "confess")
	require.NoError(t, err)
	_, err = talk(t.Context(), p, "blame")
	require.EqualError(t, err, "upstream: the upstream says: [redacted] is no key")
	require.Equal(t, llm.ErrUpstream, kindOf(t, err))

	s = spec("refuses")
	s.Settings = settings.Values(`{"key": ` + strconv.Quote(secret) + `}`)
	_, err = h.Acquire(t.Context(), s)
	require.ErrorContains(t, err, "must be polite[redacted]")

	h.Close()
	for _, form := range []string{secret, url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret)),
		secret[:len(secret)/2]} {
		require.NotContains(t, log.String(), form)
	}
	require.Contains(t, log.String(), `msg="on stdout [redacted]"`)
	require.Contains(t, log.String(), `msg="on stderr [redacted]"`)
	require.Contains(t, log.String(), `msg="logged [redacted]"`)
	require.Contains(t, log.String(), "key=[redacted]")
	require.Contains(t, log.String(), "Bearer [redacted]")
	require.Contains(t, log.String(), "[redacted]=1")
	require.Contains(t, log.String(), "Basic [redacted]")
}
