package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answering serves probes to whoever asks, until leave.
func answering(t *testing.T) (url string, leave context.CancelFunc) {
	t.Helper()
	leaving, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = AnswerProbe(leaving, w, r, new(Call)) // it fails for nobody
	}))
	t.Cleanup(server.Close)
	return server.URL, leave
}

// TestProbesEndWithTheGateway: a probe that is silent for ten minutes, and one whose body never comes, end when the
// gateway leaves, and hold nothing up.
func TestProbesEndWithTheGateway(t *testing.T) {
	t.Parallel()
	url, leave := answering(t)
	trickles, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = trickles.Close() })
	_, err = fmt.Fprintf(trickles, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{\"events\": 1}")
	require.NoError(t, err)
	body, more := io.Pipe()
	t.Cleanup(func() { _ = more.Close() })
	silent, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	require.NoError(t, err)
	answered := make(chan int, 1)
	go func() {
		resp, err := http.DefaultClient.Do(silent)
		if err != nil {
			answered <- 0
			return
		}
		_ = resp.Body.Close()
		answered <- resp.StatusCode
	}()
	_, err = io.WriteString(more, `{"wait_ms": 600000}`) // its whole order
	require.NoError(t, err)
	require.NoError(t, more.Close())
	leave()
	require.NoError(t, trickles.SetReadDeadline(time.Now().Add(20*time.Second)))
	resp, err := http.ReadResponse(bufio.NewReader(trickles), nil)
	if err == nil {
		require.GreaterOrEqual(t, resp.StatusCode, 400)
		require.NoError(t, resp.Body.Close())
	} else {
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "it was ended, not waited for")
	}
	select {
	case status := <-answered:
		require.NotEqual(t, http.StatusOK, status)
	case <-time.After(20 * time.Second):
		require.Fail(t, "the silent probe goes on")
	}
}

// TestLargeProbe: beyond its bound no body is read, however much comes.
func TestLargeProbe(t *testing.T) {
	t.Parallel()
	url, _ := answering(t)
	body := io.MultiReader(strings.NewReader(`{"events": 0}`), io.LimitReader(blanks{}, maxProbeBody+1<<20))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err == nil { // otherwise the connection was cut off
		require.Equal(t, http.StatusBadRequest, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
}

type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
