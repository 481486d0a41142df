package auth

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/plugins/families/chat"
)

// TestProbes: a credential that the admin API has given out gets a reply of the gateway's own and counts as no failed
// authentication; one that it has not, or not for this moment, is a malformed key like any other.
func TestProbes(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, &config.Config{PreAuth: config.PreAuth{FailuresPerMinute: 1}}, engine.Options{})
	now := time.Now()
	credential, until, err := gateway.Probes.Make(now)
	require.NoError(t, err)
	require.True(t, gateway.Probes.Opens(credential, now))
	require.False(t, gateway.Probes.Opens(credential[:len(credential)-1], now))
	for range 3 { // more than may fail
		call, resp := ask(t, e, chat.Server{}, "Authorization", "Bearer "+credential)
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, "it has no body, and is let in")
		require.Equal(t, gateway.KeyProbe, call.Record.KeyState)
	}
	call, resp := ask(t, e, chat.Server{}, "Authorization", "Bearer "+credential+"x")
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	require.Equal(t, gateway.KeyMalformed, call.Record.KeyState)
	require.False(t, gateway.Probes.Opens(credential, until), "its time is over")
}
