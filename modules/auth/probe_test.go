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

// TestProbes: a credential that the admin API has given out gets one reply of the gateway's own, and no second one; one
// that it has not is a malformed key like any other, and counts as no failed authentication: behind a balancer it may
// be another gateway's.
func TestProbes(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, &config.Config{PreAuth: config.PreAuth{FailuresPerMinute: 1}}, engine.Options{})
	give := func() string {
		credential, _, err := gateway.Probes.Make(time.Now())
		require.NoError(t, err)
		return credential
	}
	for range 3 { // more than may fail
		credential := give()
		call, resp := ask(t, e, chat.Server{}, "Authorization", "Bearer "+credential[:len(credential)-1])
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
		require.Equal(t, gateway.KeyMalformed, call.Record.KeyState)
		call, resp = ask(t, e, chat.Server{}, "Authorization", "Bearer "+credential)
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, "it has no body, and is let in")
		require.Equal(t, gateway.KeyProbe, call.Record.KeyState)
		call, resp = ask(t, e, chat.Server{}, "Authorization", "Bearer "+credential)
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode, "it is used up")
		require.Equal(t, gateway.KeyMalformed, call.Record.KeyState)
	}
	credential, until, err := gateway.Probes.Make(time.Now())
	require.NoError(t, err)
	require.False(t, gateway.Probes.Opens(credential, until), "its time is over")
}
