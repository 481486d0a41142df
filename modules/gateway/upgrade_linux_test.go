package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSuccessorGetsNothingOfThisProcessAlone(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"HOME=/root", "NOTIFY_SOCKET=/run/systemd/notify", "WATCHDOG_USEC=60000000"},
		successorEnv([]string{"HOME=/root", "LISTEN_FDS=3", "LISTEN_PID=7", "LISTEN_FDNAMES=a:b:c", "WATCHDOG_PID=7",
			"NOTIFY_SOCKET=/run/systemd/notify", "WATCHDOG_USEC=60000000", successionVariable + "=9"}))
	require.Equal(t, []string{"run", "--config", "Caddyfile", "--watch"},
		successorArgs([]string{"run", "--pingback", "127.0.0.1:7", "--config", "Caddyfile",
			"--pingback=127.0.0.1:8", "--watch"}))
	require.Equal(t, []string{"--config", "Caddyfile", "-a=caddyfile", "--envfile", "more"},
		configArguments([]string{"--environ", "--config", "Caddyfile", "-a=caddyfile", "--pidfile", "p",
			"--envfile", "more"}))
}
