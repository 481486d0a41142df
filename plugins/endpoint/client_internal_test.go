package endpoint

import (
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/sse"
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

// looks is a body of which a test says what has come.
type looks struct {
	io.Reader
	made int
	come bool
}

func (l *looks) Ready() bool {
	l.made++
	return l.come
}

// TestQuietStreamsAreRarelyLookedAt: a look is a call of the system, and in vain where events come one at a time.
func TestQuietStreamsAreRarelyLookedAt(t *testing.T) {
	t.Parallel()
	body := &looks{Reader: strings.NewReader("data: x\n\n")}
	c := &Call{arrived: body, events: sse.NewReader(body, maxEvent)}
	for range 100 {
		require.False(t, c.ready())
	}
	require.Equal(t, 8+12, body.made, "the first ones, and every eighth")
	body.come = true
	for !c.ready() {
		require.Less(t, body.made, 30)
	}
	require.Equal(t, 8+12+1, body.made)
	_, err := c.events.Next()
	require.NoError(t, err)
	body.come = false
	for range 8 {
		require.False(t, c.ready())
	}
	require.Equal(t, 8+12+1+8, body.made, "something had come")
}
