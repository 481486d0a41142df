package endpoint

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHostsWithoutTLS(t *testing.T) {
	t.Parallel()
	for address, want := range map[string][2]string{
		"http://models.test/v1":         {"models.test:80", "models.test"},
		"http://models.test:8080":       {"models.test:8080", "models.test:8080"},
		"http://[::1]:8080/v1":          {"[::1]:8080", "[::1]:8080"},
		"http://[fe80::1%25eth0]":       {"[fe80::1%eth0]:80", "[fe80::1]"},
		"http://b\u00fccher.test:80/v1": {"xn--bcher-kva.test:80", "xn--bcher-kva.test:80"},
	} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		dialled, host, err := plainHost(u)
		require.NoError(t, err, address)
		require.Equal(t, want, [2]string{dialled, host}, address)
	}
}
