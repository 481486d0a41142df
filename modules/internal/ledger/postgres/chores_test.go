package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger/postgres"
)

// TestChoreIsOfOneNode: of nodes that claim a chore at once one has it, keeps it as long as it claims it again, and
// loses it to another one when it does not.
func TestChoreIsOfOneNode(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := databaseOf(t, t.Name())
	var nodes []*postgres.Store
	for i := range 3 {
		s := openStore(t, url, fmt.Sprint("node-", i))
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		nodes = append(nodes, s)
	}
	var claiming sync.WaitGroup
	const chores = 40
	var won [chores]atomic.Int64
	var owner [chores]atomic.Int64
	for n, s := range nodes {
		for i := range chores {
			claiming.Go(func() {
				ours, err := s.ClaimChore(ctx, fmt.Sprint("chore ", i), time.Hour)
				if err != nil {
					t.Error(err)
				}
				if ours {
					won[i].Add(1)
					owner[i].Store(int64(n))
				}
			})
		}
	}
	claiming.Wait()
	for i := range chores {
		require.EqualValues(t, 1, won[i].Load(), i)
		for n, s := range nodes {
			ours, err := s.ClaimChore(ctx, fmt.Sprint("chore ", i), time.Hour)
			require.NoError(t, err)
			require.Equal(t, owner[i].Load() == int64(n), ours, "who has it may claim it again, and nobody else")
		}
	}
	ours, err := nodes[0].ClaimChore(ctx, "short", time.Millisecond)
	require.NoError(t, err)
	require.True(t, ours)
	require.Eventually(t, func() bool {
		ours, err := nodes[1].ClaimChore(ctx, "short", time.Hour)
		require.NoError(t, err)
		return ours
	}, 10*time.Second, time.Millisecond, "its time is over")
	ours, err = nodes[0].ClaimChore(ctx, "short", time.Hour)
	require.NoError(t, err)
	require.False(t, ours)
}

// TestOldClaimsGo: what nobody has claimed for a day is kept no longer.
func TestOldClaimsGo(t *testing.T) {
	t.Parallel()
	url := databaseOf(t, t.Name())
	s := openStore(t, url, "node")
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	for name, d := range map[string]time.Duration{"old": -25 * time.Hour, "young": -23 * time.Hour, "held": time.Hour} {
		ours, err := s.ClaimChore(t.Context(), name, d)
		require.NoError(t, err)
		require.True(t, ours)
	}
	_, err := s.ClaimChore(t.Context(), "another", time.Hour)
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), "SELECT name FROM chores ORDER BY name")
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"another", "held", "young"}, names)
}
