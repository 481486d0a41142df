package redis_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ratelimit"
	. "github.com/fareway/fareway/modules/internal/ratelimit/ratelimittest"
	"github.com/fareway/fareway/modules/internal/ratelimit/redis"
	"github.com/fareway/fareway/modules/internal/redisconn/redistest"
)

// TestMemoryOfServer: what the manual says of the server's memory: of a request, and of who sent one.
func TestMemoryOfServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := open(t, fresh(s.Options()), redis.Options{})
	used := func() int {
		for line := range strings.Lines(s.Do("INFO", "memory").(string)) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory_dataset:"); ok {
				n, err := strconv.Atoi(v)
				require.NoError(t, err)
				return n
			}
		}
		return 0
	}
	const accounts, requests = 2000, 20_000
	before := used()
	for i := range accounts {
		require.Equal(t, 1, admit(t, l, 1, ratelimit.Ask{Subject: AccountOf(fmt.Sprintf("acct_%016d", i)), Limit: 10}))
	}
	t.Log((used() - before) / accounts)
	require.Less(t, (used()-before)/accounts, 250, "bytes of an account")
	before = used()
	require.Equal(t, requests, admit(t, l, requests, ratelimit.Ask{Subject: AccountOf("busy"), Limit: requests}))
	t.Log((used() - before) / requests)
	require.Less(t, (used()-before)/requests, 13, "bytes of a request")
}
