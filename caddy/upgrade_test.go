//go:build linux

package main_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// service is a process of `fareway run`, as a service manager starts it, with two sites: one without TLS and one with.
type service struct {
	gateway
	TLS string // the URL of the second
}

// freeAddress is an address that nobody listens at.
func freeAddress(t testing.TB) string {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	return ln.Addr().String()
}

// twoSites is the configuration of a service.
func twoSites(plain, secure string) string {
	return fmt.Sprintf(`{
	skip_install_trust
	fareway {
		config gateway.hcl
		data .
	}
}
http://%s {
	fareway
}
https://%s {
	tls internal
	fareway
}
`, plain, secure)
}

// runService starts a service on a data folder, and waits until it serves.
func runService(t testing.TB, dir string, up *upstream.Server, env ...string) *service {
	t.Helper()
	return runServiceOf(t, dir, hcl(up), env...)
}

// runServiceOf is runService with a gateway.hcl.
func runServiceOf(t testing.TB, dir, hcl string, env ...string) *service {
	t.Helper()
	plain, secure := freeAddress(t), freeAddress(t)
	files{"gateway.hcl": hcl, "Caddyfile": twoSites(plain, secure)}.write(t, dir)
	g := &service{gateway: gateway{Dir: dir, URL: "http://" + plain, ended: make(chan struct{}), says: ".*"},
		TLS: "https://" + secure}
	cmd := fareway(dir, "run", "--config", filepath.Join(dir, "Caddyfile"))
	cmd.Env = append(cmd.Environ(), env...)
	g.start(t, cmd)
	return g
}

// start starts the service by a command.
func (g *service) start(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	g.admin, g.cmd = unixClient(filepath.Join(g.Dir, "admin.sock")), cmd
	// A file, for a pipe would be waited for until the last process has closed it.
	log, err := os.Create(filepath.Join(g.Dir, "log"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	g.cmd.Stdout, g.cmd.Stderr = log, log
	require.NoError(t, g.cmd.Start())
	go func() {
		g.err = g.cmd.Wait()
		close(g.ended)
	}()
	t.Cleanup(func() {
		if !g.hasEnded() {
			g.kill()
		}
		if t.Failed() {
			t.Logf("end of the log:\n%s", tail(log.Name(), 60))
		}
	})
	g.readiness(t, http.StatusOK)
	for _, c := range g.clients(t) { // the health socket is there before the sites, and the certificate comes after them
		eventually(t, func() (bool, string) {
			_, _, err := ask(c.Client, c.url, "nobody's")
			return err == nil, fmt.Sprint(err)
		})
	}
}

// replaced is what the admin API says of an upgrade.
type replaced struct {
	PID      int   `json:"pid"`
	PausedMS int64 `json:"paused_ms"`
	Running  int   `json:"running"`
}

// upgrade puts a process of the same program in the place of the service's.
func (g *service) upgrade(t testing.TB) (next child, said replaced) {
	t.Helper()
	program, err := exec.LookPath("fareway")
	require.NoError(t, err)
	g.call(t, "POST", "/fareway/upgrade", map[string]any{"program": program}, &said)
	fd, err := unix.PidfdOpen(said.PID, 0)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it has ended, unless the test failed
		_ = unix.Close(fd)
	})
	return child{said.PID, fd}, said
}

// clients of a service, by what they do with connections.
func (g *service) clients(t testing.TB) map[string]struct {
	url string
	*http.Client
} {
	t.Helper()
	trust := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // its certificate is its own
	transport := func(h2, keep bool) *http.Client {
		tr := &http.Transport{ForceAttemptHTTP2: h2, DisableKeepAlives: !keep, MaxIdleConnsPerHost: 16,
			TLSClientConfig: trust.Clone()}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr}
	}
	three := &http3.Transport{TLSClientConfig: trust}
	t.Cleanup(func() { _ = three.Close() })
	return map[string]struct {
		url string
		*http.Client
	}{
		"HTTP/1.1, a connection for each request": {g.URL, transport(false, false)},
		"HTTP/1.1, connections that are kept":     {g.URL, transport(false, true)},
		"TLS, a connection for each request":      {g.TLS, transport(false, false)},
		"HTTP/1.1 over TLS":                       {g.TLS, transport(false, true)},
		"HTTP/2":                                  {g.TLS, transport(true, true)},
		"HTTP/3":                                  {g.TLS, &http.Client{Transport: three}},
		"HTTP/3, a connection for each request":   {g.TLS, &http.Client{Transport: freshQUIC{trust}}},
	}
}

// freshQUIC makes a connection of HTTP/3 for each request.
type freshQUIC struct{ trust *tls.Config }

func (f freshQUIC) RoundTrip(req *http.Request) (*http.Response, error) {
	tr := &http3.Transport{TLSClientConfig: f.trust}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return nil, errors.Join(err, tr.Close())
	}
	resp.Body = closing{resp.Body, tr}
	return resp, nil
}

type closing struct {
	io.ReadCloser
	with io.Closer
}

func (c closing) Close() error { return errors.Join(c.ReadCloser.Close(), c.with.Close()) }

// traffic is requests that come one after the other, until it is ended.
type traffic struct {
	mu       sync.Mutex
	answered map[string]int // by kind of client
	slowest  time.Duration
	problems []string
	charged  int64
	declined int // for want of credits
	end      context.CancelFunc
	workers  sync.WaitGroup
}

// send sends requests of an account by a client.
func (tr *traffic) send(ctx context.Context, kind, url string, c *http.Client, key string) {
	for ctx.Err() == nil {
		began := time.Now()
		status, reply, err := ask(c, url, key)
		tr.mu.Lock()
		tr.slowest = max(tr.slowest, time.Since(began))
		switch bill, _ := billIn(reply); {
		case err != nil:
			tr.problems = append(tr.problems, fmt.Sprintf("%s: %v", kind, err))
		case status == http.StatusOK:
			tr.answered[kind]++
			tr.charged += bill.Microcents
		case status == http.StatusPaymentRequired:
			tr.declined++
		default:
			tr.problems = append(tr.problems, fmt.Sprintf("%s: %d %s", kind, status, reply))
		}
		tr.mu.Unlock()
	}
}

// ask sends a request that is answered as a whole.
func ask(c *http.Client, url, key string) (status int, reply string, err error) {
	req, err := shapes[0].newRequest(context.Background(), url, key, "hello", false)
	if err != nil {
		return 0, "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// startTraffic sends requests of all kinds of clients, by an account, until the test ends it.
func (g *service) startTraffic(t testing.TB, key string, workers int) *traffic {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	tr := &traffic{answered: map[string]int{}, end: cancel}
	for kind, c := range g.clients(t) {
		for range workers {
			tr.workers.Go(func() { tr.send(ctx, kind, c.url, c.Client, key) })
		}
	}
	return tr
}

// await waits until each kind of client has had some more requests answered.
func (tr *traffic) await(t testing.TB, more int) {
	t.Helper()
	tr.mu.Lock()
	before := map[string]int{}
	for kind, n := range tr.answered {
		before[kind] = n
	}
	tr.mu.Unlock()
	eventually(t, func() (bool, string) {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		enough := len(tr.answered) == 7
		for kind, n := range tr.answered {
			enough = enough && n >= before[kind]+more
		}
		return enough || len(tr.problems) > 0, fmt.Sprint(tr.answered)
	})
}

// stop ends the traffic. None of its requests has failed.
func (tr *traffic) stop(t testing.TB) (answered int) {
	t.Helper()
	tr.end()
	tr.workers.Wait()
	require.Empty(t, tr.problems)
	for _, n := range tr.answered {
		answered += n
	}
	return answered
}

// openStreams opens streams in turns by HTTP/1.1, HTTP/2 and HTTP/3, and returns when each has shown its first half.
func (g *service) openStreams(t testing.TB, up *upstream.Server, key string, n int, shapes ...shape) []*live {
	t.Helper()
	clients := g.clients(t)
	// One connection of HTTP/3 has a hundred streams at most, and a client waits for a place.
	kinds := []string{"HTTP/1.1, connections that are kept", "HTTP/2", "HTTP/3, a connection for each request"}
	streams := make([]*live, n)
	var opening sync.WaitGroup
	var failed atomic.Int64
	for first := range 32 {
		opening.Go(func() {
			for i := first; i < n; i += 32 {
				c := clients[kinds[i%3]]
				req, err := shapes[i%len(shapes)].newRequest(context.Background(), c.url, key, "wait at go", true)
				if err != nil {
					failed.Add(1)
					return
				}
				resp, err := c.Do(req)
				if err != nil {
					failed.Add(1)
					return
				}
				streams[i] = newLive(resp)
			}
		})
	}
	opening.Wait()
	require.Zero(t, failed.Load())
	for _, s := range streams {
		t.Cleanup(func() { _ = s.Body.Close() })
		s.until(t, "one ")
	}
	require.NoError(t, up.AtGate(withTimeout(t), "go", n))
	return streams
}

// testUpgrade replaces a service's process twice while streams run and requests come: no stream breaks, no request is
// refused, and each is charged once (GAP-99).
func testUpgrade(t *testing.T, streams, workers int) {
	up := upstream.Start(t, upstream.Options{Script: gated})
	dir := t.TempDir()
	g := runService(t, dir, up)
	key := g.account(t, 100_000_000)
	running := g.openStreams(t, up, key, streams, shapes...)
	load := g.startTraffic(t, key, workers)
	load.await(t, 3)

	first, said := g.upgrade(t)
	require.GreaterOrEqual(t, said.Running, streams)
	t.Logf("requests waited for %d ms", said.PausedMS)
	load.await(t, 3)
	second, said := g.upgrade(t)
	t.Logf("requests waited for %d ms", said.PausedMS)
	load.await(t, 3)
	require.False(t, g.hasEnded(), "its streams run")
	require.True(t, first.hasEnded(patience), "it has nothing to wait for")
	load.await(t, 3)
	answered := load.stop(t)
	t.Logf("%d requests were answered, the slowest after %s", answered, load.slowest)

	require.GreaterOrEqual(t, g.verify(t).Holds, int64(streams))
	up.Open("go")
	var charged int64
	for i, s := range running {
		charged += s.whole(t, shapes[i%len(shapes)]).Microcents
	}
	g.endedWell(t)
	var r report
	g.awaitSocket(t)
	eventually(t, func() (bool, string) {
		r = g.verify(t)
		return r.Holds == 0, "holds of the process before"
	})
	require.True(t, r.OK)
	require.EqualValues(t, answered+streams, r.Requests)
	require.Positive(t, charged)
	g.readiness(t, http.StatusOK)

	require.NoError(t, unix.PidfdSendSignal(second.fd, unix.SIGTERM, nil, 0))
	require.True(t, second.hasEnded(patience))
	require.True(t, verifyOffline(t, dir).OK)
	for _, left := range []string{"relay.sock", "admin.sock", "health.sock", "fareway.db.spool.of-*"} {
		found, err := filepath.Glob(filepath.Join(dir, left))
		require.NoError(t, err)
		require.Empty(t, found)
	}
}

func TestUpgrade(t *testing.T) {
	t.Parallel()
	testUpgrade(t, 24, 2)
}

// TestUpgradeSellsNothingTwice: what an account's requests hold in two processes together is never more than its
// credits.
func TestUpgradeSellsNothingTwice(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	g := runService(t, t.TempDir(), up)
	name := rand.Text()
	g.call(t, "POST", "/fareway/accounts", map[string]any{"name": name, "plan": "trial"}, nil)
	g.call(t, "POST", "/fareway/credits", map[string]any{"account": name, "credits": 1000}, nil)
	key := g.key(t, name)
	var account struct {
		Balance   int64 `json:"balance_credits"`
		Reserved  int64 `json:"reserved_credits"`
		Available int64 `json:"available_credits"`
	}
	look := func() int64 {
		g.call(t, "GET", "/fareway/accounts/"+name, nil, &account)
		require.LessOrEqual(t, account.Reserved, account.Balance)
		return account.Reserved
	}
	streams := g.openStreams(t, up, key, 1, shapes[0])
	each := look()
	require.Positive(t, each)
	// As many as leave room for one more.
	streams = append(streams, g.openStreams(t, up, key, int(1000/each)-2, shapes[0])...)
	held := look()
	load := g.startTraffic(t, key, 4)
	next, _ := g.upgrade(t)
	require.GreaterOrEqual(t, look(), held, "what runs in the process before is counted")
	load.await(t, 3)
	look()
	answered := load.stop(t)
	require.Positive(t, load.declined, "there was room for one at a time")
	up.Open("go")
	charged := load.charged
	for _, s := range streams {
		charged += s.whole(t, shapes[0]).Microcents
	}
	g.endedWell(t)
	g.awaitSocket(t)
	eventually(t, func() (bool, string) {
		r := g.verify(t)
		require.True(t, r.OK)
		return r.Holds == 0 && r.Requests == int64(answered+len(streams)), fmt.Sprint(r)
	})
	look()
	require.EqualValues(t, 1000-charged/1_000_000, account.Balance, "rounded by less than a credit")
	require.NoError(t, unix.PidfdSendSignal(next.fd, unix.SIGTERM, nil, 0))
	require.True(t, next.hasEnded(patience))
}

// TestUpgradeWhenAClientLeaves: one that leaves in a reply that the process before relays keeps that from no end.
func TestUpgradeWhenAClientLeaves(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	g := runService(t, t.TempDir(), up)
	key := g.account(t, 1_000_000)
	c := g.clients(t)["HTTP/1.1, connections that are kept"]
	status, _, err := ask(c.Client, c.url, key) // its connection is kept
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	next, _ := g.upgrade(t)
	stream := shapes[0].send(t, c.Client, c.url, key, "wait at go", true)
	require.True(t, stream.Close, "the process before has relayed it")
	stream.until(t, "one ")
	require.NoError(t, stream.Body.Close())
	g.endedWell(t)
	g.awaitSocket(t)
	up.Open("go")
	eventually(t, func() (bool, string) { r := g.verify(t); return r.OK && r.Holds == 0, fmt.Sprint(r) })
	require.NoError(t, unix.PidfdSendSignal(next.fd, unix.SIGTERM, nil, 0))
	require.True(t, next.hasEnded(patience))
}

// TestUpgradeWhenTimeIsOver: a reply that the process before relays for longer than its drain may take is ended as one
// of its own: with a frame that says so, and free (GAP-55).
func TestUpgradeWhenTimeIsOver(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	g := runServiceOf(t, t.TempDir(), "gateway {\n  drain_timeout = \"6s\"\n}\n"+hcl(up))
	key := g.account(t, 1_000_000)
	c := g.clients(t)["HTTP/1.1, connections that are kept"]
	status, _, err := ask(c.Client, c.url, key) // its connection is kept
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	before := g.verify(t).Requests
	next, _ := g.upgrade(t)
	stream := shapes[0].send(t, c.Client, c.url, key, "wait at go", true)
	require.True(t, stream.Close, "the process before has relayed it")
	reply := stream.all(t)
	require.Contains(t, reply, "one ")
	require.Contains(t, reply, `"error":{`)
	g.endedWell(t)
	g.awaitSocket(t)
	var r report
	eventually(t, func() (bool, string) { r = g.verify(t); return r.Holds == 0, fmt.Sprint(r) })
	require.True(t, r.OK)
	require.Equal(t, before+1, r.Requests)
	require.NoError(t, unix.PidfdSendSignal(next.fd, unix.SIGTERM, nil, 0))
	require.True(t, next.hasEnded(patience))
	require.Equal(t, []int64{0}, readBook(t, g.Dir).requests[stream.Header.Get("X-Request-Id")].entries)
}

// TestUpgradeWhenAClientReadsNothing: one that takes nothing of what the process before relays, over HTTP/2 with a
// window of nothing, keeps that from no end.
func TestUpgradeWhenAClientReadsNothing(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	g := runServiceOf(t, t.TempDir(), "gateway {\n  drain_timeout = \"6s\"\n}\n"+hcl(up))
	at, err := url.Parse(g.TLS)
	require.NoError(t, err)
	conn, err := tls.Dial("tcp", at.Host, &tls.Config{NextProtos: []string{"h2"}, ServerName: at.Hostname(),
		InsecureSkipVerify: true}) //nolint:gosec // its certificate is its own
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	framer := http2.NewFramer(conn, conn)
	require.NoError(t, framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize}))
	_, err = framer.ReadFrame() // the connection stands
	require.NoError(t, err)
	next, _ := g.upgrade(t)
	block, err := headerBlock(at.Host, "nobody's")
	require.NoError(t, err)
	require.NoError(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true,
		EndStream: true}))
	for { // until the refusal's header has come; its body cannot
		frame, err := framer.ReadFrame()
		require.NoError(t, err)
		if frame.Header().Type == http2.FrameHeaders {
			break
		}
	}
	g.endedWell(t)
	require.NoError(t, unix.PidfdSendSignal(next.fd, unix.SIGTERM, nil, 0))
	require.True(t, next.hasEnded(patience))
}

// TestUpgradeStopsTogether: a service manager ends what is left of a service with its main process, so that waits for
// the process before it, and takes up what it leaves.
func TestUpgradeStopsTogether(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	dir := t.TempDir()
	manager, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "unixgram", filepath.Join(dir, "notify"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = manager.Close() })
	g := runService(t, dir, up, "INVOCATION_ID=1", "NOTIFY_SOCKET="+manager.LocalAddr().String())
	streams := g.openStreams(t, up, g.account(t, 1_000_000), len(shapes), shapes...)
	next, _ := g.upgrade(t)
	// The manager hears of its main process, which has to be a child of its own.
	for said := ""; !strings.Contains(said, fmt.Sprintf("MAINPID=%d\n", next.pid)); {
		b := make([]byte, 512)
		require.NoError(t, manager.SetReadDeadline(time.Now().Add(patience)))
		n, _, err := manager.ReadFrom(b)
		require.NoError(t, err)
		said = string(b[:n])
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", next.pid))
	require.NoError(t, err)
	require.Contains(t, string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid()))
	require.NoError(t, unix.PidfdSendSignal(next.fd, unix.SIGTERM, nil, 0))
	eventually(t, func() (bool, string) {
		log, err := os.ReadFile(filepath.Join(dir, "log"))
		require.NoError(t, err)
		return strings.Contains(string(log), "waiting for the process before this one"), "the log says nothing of it"
	})
	up.Open("go")
	for i, s := range streams {
		s.whole(t, shapes[i%len(shapes)])
	}
	require.True(t, next.hasEnded(patience))
	g.endedWell(t)
	r := verifyOffline(t, dir)
	require.True(t, r.OK)
	require.EqualValues(t, len(streams), r.Requests)
	require.Zero(t, r.Holds)
}

// TestUpgradeFailsLate: where the new program fails when it has the ledger already, the one before takes its place.
func TestUpgradeFailsLate(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	dir := t.TempDir()
	g := runService(t, dir, up)
	key := g.account(t, 1_000_000)
	streams := g.openStreams(t, up, key, 4, shapes...)
	load := g.startTraffic(t, key, 1)
	load.await(t, 1)
	program, err := exec.LookPath("fareway")
	require.NoError(t, err)
	late := filepath.Join(dir, "late")
	require.NoError(t, os.WriteFile(late, []byte(`#!/bin/sh
[ "$1" = run ] || exec "`+program+`" "$@"
eval "echo prepared >&$FAREWAY_SUCCESSION; read yours <&$FAREWAY_SUCCESSION"
exit 7
`), 0o700)) //nolint:gosec // it is a program
	status, reply := g.refusedUpgrade(t, late)
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, reply, "has failed: it has ended (exit status 7)")
	load.await(t, 3)
	load.stop(t)
	up.Open("go")
	for i, s := range streams {
		s.whole(t, shapes[i%len(shapes)])
	}
	g.endedWell(t)
	g.awaitSocket(t)
	var now struct{ PID int }
	g.call(t, "GET", "/fareway/status", nil, &now)
	require.NotEqual(t, g.cmd.Process.Pid, now.PID)
	fd, err := unix.PidfdOpen(now.PID, 0)
	require.NoError(t, err)
	next := child{now.PID, fd}
	require.NoError(t, unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0))
	require.True(t, next.hasEnded(patience))
	require.NoError(t, unix.Close(fd))
	require.True(t, verifyOffline(t, dir).OK)
}

// TestUpgradeFails: where the new program cannot take the gateway's place, that goes on, and says why.
func TestUpgradeFails(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: gated})
	dir := t.TempDir()
	g := runService(t, dir, up)
	key := g.account(t, 1_000_000)
	program, err := exec.LookPath("fareway")
	require.NoError(t, err)
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700)) //nolint:gosec // it is a program
		return path
	}
	site := filepath.Join(dir, "Caddyfile")
	whole, err := os.ReadFile(site)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		program string
		site    string
		says    string
	}{
		"no file":           {filepath.Join(dir, "nobody"), "", "no such file"},
		"a relative path":   {"fareway", "", "give the whole path"},
		"another program":   {"/bin/true", "", "is no fareway"},
		"one that dies":     {script("dies", `[ "$1" = run ] && exit 7; exec "`+program+`" "$@"`), "", "exit status 7"},
		"one that is older": {script("older", `unset FAREWAY_SUCCESSION; exec "`+program+`" "$@"`), "", "it has ended"},
		"a configuration":   {program, "nonsense {", "does not take the configuration"},
		"another address": {program,
			strings.Replace(string(whole), "\tfareway\n}", "\tfareway\n\tbind 192.0.2.1\n}", 1),
			"192.0.2.1"},
	} {
		t.Log(name)
		if c.site != "" {
			require.NoError(t, os.WriteFile(site, []byte(c.site), 0o600))
		}
		status, reply := g.refusedUpgrade(t, c.program)
		require.Equal(t, http.StatusConflict, status)
		require.Contains(t, reply, c.says)
		require.NoError(t, os.WriteFile(site, whole, 0o600))
		code, _, err := ask(http.DefaultClient, g.URL, key)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, code)
		g.readiness(t, http.StatusOK)
	}
	version := func(statement string) {
		conn, err := sqlite.OpenConn(filepath.Join(dir, "fareway.db"), sqlite.OpenReadWrite)
		require.NoError(t, err)
		conn.SetBusyTimeout(patience)
		require.NoError(t, sqlitex.ExecuteTransient(conn, statement, nil))
		require.NoError(t, conn.Close())
	}
	version("UPDATE meta SET version = version + 80")
	status, reply := g.refusedUpgrade(t, program)
	require.Equal(t, http.StatusConflict, status, "a program that is older than the ledger")
	require.Contains(t, reply, "run the newer fareway")
	require.Contains(t, reply, "this one goes on")
	version("UPDATE meta SET version = version - 80")
	code, _, err := ask(http.DefaultClient, g.URL, key)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
}

// awaitSocket waits until the admin socket is put back that the process before has removed at its end.
func (g *service) awaitSocket(t testing.TB) {
	t.Helper()
	eventually(t, func() (bool, string) {
		_, err := os.Lstat(filepath.Join(g.Dir, "admin.sock"))
		return err == nil, fmt.Sprint(err)
	})
}

// refusedUpgrade asks for an upgrade that is refused.
func (g *service) refusedUpgrade(t testing.TB, program string) (status int, reply string) {
	t.Helper()
	req, err := http.NewRequestWithContext(withTimeout(t), "POST", "http://localhost/fareway/upgrade",
		strings.NewReader(fmt.Sprintf(`{"program": %q}`, program)))
	require.NoError(t, err)
	resp, err := g.admin.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}
