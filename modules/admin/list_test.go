package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// journal is books with a journal only, which the test makes up as it is read.
type journal struct {
	ledger.Books
	entries func(ctx context.Context, each func(ledger.Entry) error) error
}

func (j journal) Entries(ctx context.Context, _ ledger.Query, each func(ledger.Entry) error) error {
	return j.entries(ctx, each)
}

func (j journal) api() *booksAPI {
	return &booksAPI{books: j, now: time.Now, config: func() *config.Config { return nil }}
}

// endless is a journal that goes on until each has enough.
func endless(_ context.Context, each func(ledger.Entry) error) error {
	for n := int64(1); ; n++ {
		if err := each(ledger.Entry{N: n, Account: "acct_1", Kind: ledger.TopUp}); err != nil {
			return err
		}
	}
}

const entriesPath = "/fareway/ledger/entries"

func TestListEndsWithItsClient(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	api := journal{entries: func(ctx context.Context, each func(ledger.Entry) error) error {
		err := endless(ctx, each)
		ended <- err
		return err
	}}.api()
	require.NoError(t, serveHere(api.routes(), "the test", func(c *Client) error {
		enough := errors.New("enough")
		n := 0
		err := ReadList(t.Context(), c, entriesPath, nil, func(Entry) error {
			if n++; n == 1000 {
				return enough
			}
			return nil
		})
		require.ErrorIs(t, err, enough)
		require.Error(t, <-ended, "the server stops, too")
		return nil
	}))
}

func TestListThatFails(t *testing.T) {
	t.Parallel()
	failing := func(rows int) *booksAPI {
		return journal{entries: func(_ context.Context, each func(ledger.Entry) error) error {
			for n := range int64(rows) {
				if err := each(ledger.Entry{N: n + 1}); err != nil {
					return err
				}
			}
			return fmt.Errorf("reading the journal: %w", ledger.ErrUnavailable)
		}}.api()
	}
	read := func(t *testing.T, api *booksAPI) (rows int, err error) {
		t.Helper()
		require.NoError(t, serveHere(api.routes(), "the test", func(c *Client) error {
			err = ReadList(t.Context(), c, entriesPath, nil, func(e Entry) error {
				rows++
				require.EqualValues(t, rows, e.N)
				return nil
			})
			return nil
		}))
		return rows, err
	}
	t.Run("before anything was sent", func(t *testing.T) {
		t.Parallel()
		rows, err := read(t, failing(3))
		var refused *adminError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, http.StatusServiceUnavailable, refused.Status)
		require.Zero(t, rows)
	})
	t.Run("on the way", func(t *testing.T) {
		t.Parallel()
		rows, err := read(t, failing(5000))
		require.EqualError(t, err, "the list broke off: reading the journal: ledger unavailable")
		require.Positive(t, rows)
		require.Less(t, rows, 5000)
	})
	t.Run("for a client that knows nothing of its last line", func(t *testing.T) {
		t.Parallel()
		srv := httptest.NewServer(plain(list(failing(5000).entries)))
		t.Cleanup(srv.Close)
		resp, err := srv.Client().Get(srv.URL)
		require.NoError(t, err)
		defer resp.Body.Close()
		r := bufio.NewReader(resp.Body)
		for err == nil {
			_, err = r.ReadString('\n')
		}
		require.ErrorContains(t, err, "unexpected EOF")
	})
	t.Run("in the network", func(t *testing.T) {
		t.Parallel()
		data, address := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"n":1}` + "\n" + `{"n":`))
		}))
		c, err := NewClient(data, address)
		require.NoError(t, err)
		err = ReadList(t.Context(), c, entriesPath, nil, func(Entry) error { return nil })
		require.ErrorContains(t, err, "it broke off", "half a line is no line")
	})
}

// TestListsAreBounded reads half a million entries and looks at the heap in the middle of it.
//
//nolint:paralleltest // the heap is that of all tests
func TestListsAreBounded(t *testing.T) {
	const entries = 500_000
	api := journal{entries: func(ctx context.Context, each func(ledger.Entry) error) error {
		return endless(ctx, func(e ledger.Entry) error {
			if e.N > entries {
				return errFound
			}
			return each(e)
		})
	}}.api()
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	rows := 0
	err := serveHere(api.routes(), "the test", func(c *Client) error {
		return c.Lines(t.Context(), entriesPath, nil, func([]byte) error {
			if rows++; rows%100_000 == 0 {
				require.Less(t, heap()-before, int64(16<<20), "after %d rows", rows)
			}
			return nil
		})
	})
	require.ErrorContains(t, err, "found", "the journal's own end")
	require.GreaterOrEqual(t, rows, entries-1000)
}

// TestListTakesItsTime: neither Caddy's limit on how long a request may take to arrive nor a long silence end a list,
// but a client that reads nothing does.
func TestListTakesItsTime(t *testing.T) {
	t.Parallel()
	serve := func(t *testing.T, api *booksAPI) *pipeListener {
		t.Helper()
		ln := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
		handler := caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			if err := readBody(w, r); err != nil {
				return err
			}
			return list(api.entries).ServeHTTP(w, r)
		})
		srv := &http.Server{Handler: plain(handler), ReadTimeout: 10 * time.Second, ReadHeaderTimeout: 5 * time.Second}
		ended := make(chan struct{})
		go func() {
			_ = srv.Serve(ln)
			close(ended)
		}()
		t.Cleanup(func() {
			require.NoError(t, srv.Close())
			<-ended
		})
		return ln
	}
	t.Run("slow journal", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ln := serve(t, journal{entries: func(ctx context.Context, each func(ledger.Entry) error) error {
				for n := range int64(3) {
					select {
					case <-time.After(time.Minute):
					case <-ctx.Done():
						return fmt.Errorf("the client seems to be gone: %w", ctx.Err())
					}
					if err := each(ledger.Entry{N: n}); err != nil {
						return err
					}
				}
				return nil
			}}.api())
			c := &Client{Place: gateway.Place{Network: "unix"},
				http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: ln.dial}}}
			rows := 0
			require.NoError(t, c.Lines(t.Context(), entriesPath, nil, func([]byte) error { rows++; return nil }))
			require.Equal(t, 3, rows)
		})
	})
	t.Run("client that reads nothing", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 1)
			ln := serve(t, journal{entries: func(ctx context.Context, each func(ledger.Entry) error) error {
				err := endless(ctx, each)
				ended <- err
				return err
			}}.api())
			conn, err := ln.dial(t.Context(), "", "")
			require.NoError(t, err)
			_, err = conn.Write([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
			require.NoError(t, err)
			start := time.Now()
			require.Error(t, <-ended)
			require.Equal(t, listTimeout, time.Since(start))
			require.NoError(t, conn.Close())
		})
	})
}

func TestLongLinesAreRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*ListBuffer)
	r := bufio.NewReaderSize(strings.NewReader("a\n"+long+"\nb\n"), ListBuffer)
	for _, want := range []string{"a\n", long + "\n", "b\n"} {
		line, err := readLine(r)
		require.NoError(t, err)
		require.Equal(t, want, string(line))
	}
	r = bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", 2*maxLine)), ListBuffer)
	_, err := readLine(r)
	require.ErrorIs(t, err, bufio.ErrBufferFull, "but not without bound")
}

// pipeListener accepts connections that are dialled in this process.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept implements net.Listener.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. The server calls it once.
func (l *pipeListener) Close() error {
	close(l.done)
	return nil
}

// Addr implements net.Listener.
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "this process", Net: "unix"} }

var _ net.Listener = (*pipeListener)(nil)
