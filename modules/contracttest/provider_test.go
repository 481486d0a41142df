package contracttest

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// processes are the ids of the processes that ran as a provider so far; the last one may run.
func (s *service) processes(t testing.TB, provider string) []int {
	t.Helper()
	var pids []int
	for _, line := range s.Log.Lines(t, func(line map[string]any) bool {
		return line["msg"] == "provider started" && line["provider"] == provider
	}) {
		pid, err := strconv.Atoi(line["pid"].(string))
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// kill ends a provider's process as kill -9 does, and waits until the gateway has noticed.
func (s *service) kill(t testing.TB, provider string) {
	t.Helper()
	pids := s.processes(t, provider)
	require.NotEmpty(t, pids)
	process, err := os.FindProcess(pids[len(pids)-1])
	require.NoError(t, err)
	require.NoError(t, process.Kill())
	s.Log.Await(t, func(map[string]any) bool {
		return len(s.Log.Lines(t, func(line map[string]any) bool {
			return line["provider"] == provider && line["msg"] == "provider failed; starting it again"
		})) >= len(pids)
	})
}

// awaitState waits until a provider's process is in that state.
func (s *service) awaitState(t testing.TB, provider string, state host.State) {
	t.Helper()
	require.Eventually(t, func() bool { return slices.Contains(s.providerStates(t), provider+" "+string(state)) },
		time.Minute, time.Millisecond)
}

// awaitProvider waits until a provider takes requests again.
func (s *service) awaitProvider(t testing.TB, provider string) {
	t.Helper()
	require.Eventually(t, func() bool { return s.Engine.Current().Ready(provider) }, time.Minute, time.Millisecond)
}

// TestProviderDies kills provider processes with -9.
func TestProviderDies(t *testing.T) {
	t.Parallel()
	for _, sh := range shapes {
		t.Run("SSE-37 ERR-33 BILL-25 in the middle of a stream "+sh.Name, func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Carry: "process"})
			c := g.rich(t)
			c.Answers(script(used(10, 2), "stop", upstream.Text("Hel"), upstream.Wait(c.Mark), upstream.Text("lo")))
			l := c.Open(t, sh)
			l.Start(sh)
			require.Equal(t, "Hel", l.Text(sh))
			g.kill(t, "up")
			l.End()
			v := judge(t, sh, l)
			require.Equal(t, "stream_error", v.Error.Code)
			c.Access(l.Header.Get("X-Request-Id"))
			require.Zero(t, c.Balance().Held)
			require.Equal(t, c.Credits*1_000_000, c.Net())

			c.Upstream.Open(c.Mark)
			g.awaitProvider(t, "up")
			require.Equal(t, "Hello", askBoth(t, c, sh).Text, "the next request works")
		})
		t.Run("ERR-25 SSE-43 before text "+sh.Name, func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Carry: "process", Providers: []string{"other"}, Routes: []route{
				{Name: "first", Quality: 0.9}, {Name: "second", Quality: 0.1, Provider: "other"},
			}})
			c := g.rich(t)
			c.AnswersBy(byRoute(refusal(c.Mark), hello))
			s := c.Send(t, within(t), sh, streamField)
			require.NoError(t, c.Upstream.AtGate(within(t), c.Mark, 1))
			g.kill(t, "up")
			l := s.Live()
			l.End()
			v := judge(t, sh, l)
			require.True(t, v.Complete)
			require.Equal(t, "Hello", v.Text)
			require.Len(t, c.Seen(), 2)
			require.Equal(t, "second", c.Route(t))
		})
	}
}

// TestProviderDiesBesideCarriedReplies: what the gateway carries does not end with the provider's process, and goes on
// while there is none.
func TestProviderDiesBesideCarriedReplies(t *testing.T) {
	t.Parallel()
	for _, sh := range shapes {
		t.Run("BILL-25 "+sh.Name, func(t *testing.T) {
			t.Parallel()
			g := startScripted(t, setup{Carry: "host"})
			c := g.rich(t)
			c.Answers(script(used(10, 2), "stop", upstream.Text("Hel"), upstream.Wait(c.Mark), upstream.Text("lo")))
			l := c.Open(t, sh)
			l.Start(sh)
			require.Equal(t, "Hel", l.Text(sh))
			for range 3 { // each restart waits twice as long as the one before, which leaves time to ask
				g.awaitState(t, "up", host.Ready)
				g.kill(t, "up")
			}
			require.True(t, g.Engine.Current().Ready("up"), "an endpoint outlives its provider's process")
			c.Upstream.Open(c.Mark)
			require.Equal(t, "Hello", askBoth(t, c, sh).Text, "a request while there is no process")
			l.End()
			v := judge(t, sh, l)
			require.True(t, v.Complete)
			require.Equal(t, "Hello", v.Text)
			c.Access(l.Header.Get("X-Request-Id"))
			require.Zero(t, c.Balance().Held)
		})
	}
}

// TestNoProvider proves what clients are told while no provider runs.
func TestNoProvider(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Carry: "process"})
	for range 5 { // each restart waits twice as long as the one before, which leaves time to ask
		g.awaitProvider(t, "up")
		g.kill(t, "up")
	}
	answers := make(map[string]answer)
	customers := make(map[string]*caller)
	for _, sh := range shapes {
		customers[sh.Name] = g.rich(t)
		answers[sh.Name] = customers[sh.Name].Ask(sh, streamField)
	}
	g.awaitProvider(t, "up")
	for _, sh := range shapes {
		t.Run("ERR-28 SSE-44 "+sh.Name, func(t *testing.T) {
			t.Parallel()
			a, c := answers[sh.Name], customers[sh.Name]
			requireError(t, sh, a, 503, "upstream_error")
			require.Empty(t, a.Header.Get("X-Should-Retry"))
			require.Empty(t, a.Header.Get("Retry-After"))
			c.RequireUntouched(t)
			require.Equal(t, "Hello", c.Stream(t, sh).Text, "it recovers")
		})
	}
}
