package redis_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ratelimit"
	. "github.com/fareway/fareway/modules/internal/ratelimit/ratelimittest"
	"github.com/fareway/fareway/modules/internal/ratelimit/redis"
	"github.com/fareway/fareway/modules/internal/redisconn"
	"github.com/fareway/fareway/modules/internal/redisconn/redistest"
)

// TestCluster runs the suite over a Cluster, and what goes wrong there.
func TestCluster(t *testing.T) {
	t.Parallel()
	all := redistest.StartCluster(t, 3, 0)
	suite(t, func() redisconn.Options { return redistest.ClusterOptions(all) })
	t.Run("GAP-16 what the account let in counts nowhere when the address refuses", func(t *testing.T) {
		t.Parallel()
		l := open(t, fresh(redistest.ClusterOptions(all)), redis.Options{})
		key, account, running := KeyOf("k"), ratelimit.Ask{Subject: AccountOf("a"), Limit: 10},
			ratelimit.Ask{Subject: RunningOf("a"), Limit: 5}
		key.Account = "a"
		asks := []ratelimit.Ask{{Subject: key, Limit: 10}, account, {Subject: AddressOf("192.0.2.1"), Limit: 2}, running}
		require.Equal(t, 2, admit(t, l, 2, asks...))
		for range 20 {
			_, r, err := l.Acquire(t.Context(), asks)
			require.NoError(t, err)
			require.Equal(t, 2, r.Ask)
			require.Greater(t, r.Wait, 50*time.Second)
		}
		require.Equal(t, 3, admit(t, l, 20, running))
		require.Equal(t, 8, admit(t, l, 20, ratelimit.Ask{Subject: key, Limit: 10}, account))
	})
}

// TestClusterMoves: while slots move from one node to another, and when a node is replaced by its replica, the limits
// hold and nobody is refused for it.
func TestClusterMoves(t *testing.T) {
	t.Parallel()
	all := redistest.StartCluster(t, 3, 1)
	at := fresh(redistest.ClusterOptions(all))
	at.Timeout = time.Second
	l := open(t, at, redis.Options{})
	require.Equal(t, 40, admit(t, l, 40, hundred))
	// "{a}" has slot 15495: on its way its keys are asked for at both nodes (ASK), then at the new one (MOVED).
	from, to := redistest.OwnerOf(t, all, 15495), redistest.OwnerOf(t, all, 1)
	redistest.MoveSlot(t, all, 15495, from, to, func() {
		require.Equal(t, 10, admit(t, l, 10, hundred))
	})
	require.Equal(t, 40, admit(t, l, 60, hundred))
	require.Zero(t, l.Status().Shares)
	to.Kill()
	for range 2000 { // until its replica serves, shares of one node are the limits themselves
		if l.Status().Up && redistest.OwnerOf(t, without(all, to), 15495) != to {
			break
		}
		admit(t, l, 1, hundred)
		<-time.After(10 * time.Millisecond)
	}
	require.True(t, l.Status().Up, l.Status().Reason)
	require.Zero(t, admit(t, l, 20, hundred))
}

func without(all []*redistest.Server, one *redistest.Server) (rest []*redistest.Server) {
	for _, s := range all {
		if s != one {
			rest = append(rest, s)
		}
	}
	return rest
}

// TestSentinel runs the suite over a server that Sentinels watch, and lets it fail over.
func TestSentinel(t *testing.T) {
	t.Parallel()
	w := redistest.StartSentinel(t)
	suite(t, w.Options)
}

// TestFailover: when the primary is gone, or stands still and wakes up as one that is none any more, the replica
// counts on, by what the nodes know.
func TestFailover(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*redistest.Server){
		"killed":  (*redistest.Server).Kill,
		"stopped": func(s *redistest.Server) { s.Signal(syscall.SIGSTOP) },
	} {
		t.Run("LIM-05 "+name, func(t *testing.T) {
			t.Parallel()
			w := redistest.StartSentinel(t)
			at := fresh(w.Options())
			at.Timeout = 500 * time.Millisecond
			one, two := pairOn(t, at)
			require.Equal(t, 40, admit(t, one, 40, hundred))
			require.Equal(t, 30, admit(t, two, 30, hundred))
			end(w.Servers[0])
			require.Equal(t, 10, admit(t, one, 20, hundred), "its share is 50")
			require.False(t, one.Status().Up)
			await(t, one, true)
			two.Pulse()
			await(t, two, true)
			settle(t, one, two)
			require.LessOrEqual(t, admit(t, two, 40, hundred), 20)
			require.Zero(t, admit(t, one, 1, hundred))
			if name == "stopped" {
				w.Servers[0].Signal(syscall.SIGCONT)
				for range 100 {
					require.Zero(t, admit(t, one, 1, hundred)+admit(t, two, 1, hundred))
				}
			}
		})
	}
}
