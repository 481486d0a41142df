package engine

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRecentRequests: a flood of strangers drives out no customer's request, and what goes well no failure.
func TestRecentRequests(t *testing.T) {
	t.Parallel()
	var r recent
	r.add(&Ended{ID: "failed", AccountID: "a", Status: 502})
	r.add(&Ended{ID: "broken off", AccountID: "a", Status: 200, Aborted: true})
	for i := range 3 * keptRecent {
		r.add(&Ended{ID: fmt.Sprint("stranger ", i), Status: 401})
		r.add(&Ended{ID: fmt.Sprint("served ", i), AccountID: "a", Status: 200})
	}
	list, last := r.after(0)
	require.EqualValues(t, 6*keptRecent+2, last)
	require.Len(t, list, 2*keptRecent+2)
	require.Equal(t, fmt.Sprint("served ", 3*keptRecent-1), list[0].ID, "the newest first")
	require.Equal(t, []string{"broken off", "failed"}, []string{list[len(list)-2].ID, list[len(list)-1].ID})
	newer, _ := r.after(last - 3)
	require.Equal(t, list[:3], newer)
	none, _ := r.after(last)
	require.Empty(t, none)
}

// TestRecentRequestsTogether: whoever reads sees whole requests, each once.
func TestRecentRequestsTogether(t *testing.T) {
	t.Parallel()
	var (
		r       recent
		writers sync.WaitGroup
	)
	for range 4 {
		writers.Go(func() {
			for i := range 2000 {
				text := fmt.Sprint(i)
				r.add(&Ended{ID: text, AccountID: text, Status: 200, Input: int64(i)})
			}
		})
	}
	for range 200 {
		list, last := r.after(0)
		for i, e := range list {
			require.Equal(t, e.ID, e.AccountID)
			require.Equal(t, fmt.Sprint(e.Input), e.ID)
			require.LessOrEqual(t, e.N, last)
			require.True(t, i == 0 || e.N < list[i-1].N)
		}
	}
	writers.Wait()
	list, _ := r.after(0)
	require.Len(t, list, keptRecent)
}

func BenchmarkRecent(b *testing.B) {
	var r recent
	e := &Ended{ID: "req_0193b0a7c5d07f3a9c1e5d2b7a604f11", AccountID: "acct_1", Status: 200}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.add(e)
		}
	})
}
