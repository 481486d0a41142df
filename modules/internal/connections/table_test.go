package connections_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/connections"
)

func TestTable(t *testing.T) {
	t.Parallel()
	var table connections.Table
	limits := connections.Limits{Max: 6, PerAddress: 2, Exempt: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	take := func(from string) (func(), connections.Refusal) {
		return table.Take(netip.MustParseAddr(from), limits)
	}
	var releases []func()
	for _, c := range []struct {
		from string
		want connections.Refusal
	}{
		{"192.0.2.1", connections.None}, {"::ffff:192.0.2.1", connections.None}, {"192.0.2.1", connections.OfAddress},
		{"2001:db8::1", connections.None}, {"2001:db8::2", connections.None}, {"2001:db8::3", connections.OfAddress},
		{"10.1.2.3", connections.None}, {"127.0.0.1", connections.None},
		{"10.1.2.3", connections.OfAll}, {"192.0.2.2", connections.OfAll}, {"::1", connections.OfAll},
	} {
		release, refused := take(c.from)
		require.Equal(t, c.want, refused, c.from)
		if refused == connections.None {
			releases = append(releases, release)
		}
	}
	require.Equal(t, 6, table.Open())
	require.EqualValues(t, 2, table.Refused(connections.OfAddress))
	require.EqualValues(t, 3, table.Refused(connections.OfAll))

	releases[0]()
	roomy := connections.Limits{Max: 100, PerAddress: 8, Exempt: limits.Exempt}
	require.False(t, table.IsFilling(netip.MustParseAddr("192.0.2.1"), roomy), "it has one of eight")
	require.True(t, table.IsFilling(netip.MustParseAddr("2001:db8::9"), roomy), "its network has two")
	require.False(t, table.IsFilling(netip.MustParseAddr("10.1.2.3"), roomy), "it is exempt")
	roomy.Max = 10
	require.True(t, table.IsFilling(netip.MustParseAddr("192.0.2.9"), roomy), "half of all are taken")
	again, refused := take("192.0.2.1")
	require.Equal(t, connections.None, refused, "one of its connections has ended")
	again()
	for _, release := range releases[1:] {
		release()
	}
	require.Zero(t, table.Open())
	for range 3 { // exempt ones are bounded by the number of all
		_, refused = take("10.1.2.3")
		require.Equal(t, connections.None, refused)
	}
	_, refused = table.Take(netip.Addr{}, limits)
	require.Equal(t, connections.None, refused, "a socket has no address")
}
