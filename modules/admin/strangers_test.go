package admin

import (
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine/enginetest"
)

// TestWrongTokensAreLogged: who tries tokens leaves lines with address and count, and few of them.
func TestWrongTokensAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		log := slog.New(slog.NewTextHandler(&b, nil))
		s := newStrangers(func() *slog.Logger { return log })
		from := func(address string, times int) {
			for range times {
				s.refused(&http.Request{RemoteAddr: address + ":" + strconv.Itoa(1000+times)})
			}
		}
		said := func() (lines []string) {
			for line := range strings.Lines(b.String()) {
				_, line, _ = strings.Cut(line, "client_ip=")
				lines = append(lines, strings.TrimSpace(line))
			}
			b.Reset()
			return lines
		}
		from("192.0.2.1", 200)
		from("192.0.2.2", 2)
		require.Equal(t, []string{"192.0.2.1 count=1", "192.0.2.2 count=1"}, said())
		<-time.After(strangersEvery)
		synctest.Wait()
		require.ElementsMatch(t, []string{"192.0.2.1 count=199", "192.0.2.2 count=1"}, said())
		<-time.After(strangersEvery)
		synctest.Wait()
		require.Empty(t, said())
		require.Empty(t, s.count, "nothing is kept of them")

		for n := range 3 * maxStrangers {
			from("198.51.100."+strconv.Itoa(n), 1)
		}
		require.Len(t, said(), maxStrangers+1)
		<-time.After(strangersEvery)
		synctest.Wait()
		require.Equal(t, []string{"others count=" + strconv.Itoa(2*maxStrangers-1)}, said())
		<-time.After(strangersEvery)
		synctest.Wait()
	})
}

// TestAWrongTokenIsLogged: at the gateway's own address.
func TestAWrongTokenIsLogged(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	e := enginetest.New(t, nil)
	e.SetLogger(slog.New(slog.NewTextHandler(&b, nil)))
	a := new(API)
	require.NoError(t, a.serve(e))
	r, err := http.NewRequestWithContext(t.Context(), "GET", "/fareway/status", nil)
	require.NoError(t, err)
	r.RemoteAddr = "192.0.2.7:4711"
	r.Header.Set("Authorization", "Bearer no-such-token")
	require.ErrorContains(t, a.guard(nil, a.mayAll).ServeHTTP(nil, r), "the admin token is missing or wrong")
	require.Contains(t, b.String(), "client_ip=192.0.2.7 count=1")
	require.NotContains(t, b.String(), "no-such-token")
}
