//go:build linux && soak

package main_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

var crashCycles = flag.Int("crash.cycles", 1000, "how many gateways TestSoakCrash kills")

// TestSoakCrash is TestCrash for as long as it takes to find what is rare.
func TestSoakCrash(t *testing.T) {
	t.Parallel()
	ends := crashes(t, *crashCycles)
	if *crashCycles < 200 {
		return // what is rare may not have come
	}
	for _, rare := range []string{"work, with requests that run", "work, after receipts", "start, with requests that run",
		"recovery, with requests that run", "recovery, with a client that was told what is in the spool",
		"recovery, after recovery", "reload, with requests that run", "drain, with requests that run",
		"work, with a client that was told what is in the spool", "lock, with a client that was told what is in the spool",
		"unlock"} {
		require.Positive(t, ends[rare], "%s: %v", rare, ends)
	}
}

// TestSoakSilence is two minutes of a route that says nothing: longer than any timeout of Caddy's. Streams live
// on by their keep-alives, also behind a proxy that closes after 20 seconds; whole replies live without.
func TestSoakSilence(t *testing.T) {
	t.Parallel()
	const silence, interval = 2 * time.Minute, 15 * time.Second
	up := upstream.Start(t, upstream.Options{Script: quiet})
	g := startGateway(t, files{"gateway.hcl": hcl(up), "Caddyfile": site})
	key := g.account(t, 1_000_000)
	address, err := url.Parse(g.URL)
	require.NoError(t, err)
	proxy := impatientProxy(t, net.JoinHostPort("127.0.0.1", address.Port()), 20*time.Second)
	direct := g.clients(t, nil)
	proxied := g.clients(t, func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, proxy)
	})
	ctx, cancel := context.WithTimeout(t.Context(), silence+patience)
	t.Cleanup(cancel)

	type waiting struct {
		name, clause  string
		shape         shape
		proto         string
		stream, whole <-chan timed
	}
	var all []waiting
	for proto := range direct {
		for _, s := range shapes { // all wait at the same time
			line, clause := s.keepAlive()
			all = append(all, waiting{s.name + " " + proto, clause, s, proto,
				later(func() timed { return s.clock(ctx, proxied[proto], g.URL, key, true, line) }),
				later(func() timed { return s.clock(ctx, direct[proto], g.URL, key, false, line) })})
		}
	}
	require.NoError(t, up.AtGate(withTimeout(t), "go", 2*len(all)))
	timer := time.AfterFunc(silence, func() { up.Open("go") })
	t.Cleanup(func() { timer.Stop() })
	for _, w := range all {
		stream, whole := <-w.stream, <-w.whole
		t.Run("SSE-25 "+w.clause+" streamed/"+w.name, func(t *testing.T) {
			require.NoError(t, stream.err)
			require.Equal(t, w.proto, stream.proto)
			require.Contains(t, stream.reply, "at last")
			require.True(t, strings.HasSuffix(stream.reply, w.shape.end), "%s", stream.reply)
			require.InDelta(t, silence/interval, len(stream.gaps), 1)
			for _, gap := range stream.gaps {
				require.InDelta(t, interval.Seconds(), gap.Seconds(), 2)
			}
		})
		t.Run("whole/"+w.name, func(t *testing.T) {
			require.NoError(t, whole.err)
			require.Equal(t, w.proto, whole.proto)
			require.Contains(t, whole.reply, "at last")
		})
	}
}

// timed is a reply with the times between its keep-alives, the first since it began.
type timed struct {
	proto, reply string
	gaps         []time.Duration
	err          error
}

// clock sends a request that is answered when the gate "go" opens.
func (s shape) clock(ctx context.Context, c *http.Client, url, key string, stream bool, keepAlive string) (r timed) {
	req, err := s.newRequest(ctx, url, key, "be quiet until go", stream)
	if err != nil {
		r.err = err
		return r
	}
	resp, err := c.Do(req)
	if err != nil {
		r.err = err
		return r
	}
	defer resp.Body.Close()
	r.proto = resp.Proto
	last := time.Now()
	for in := bufio.NewReader(resp.Body); ; {
		line, err := in.ReadString('\n')
		r.reply += line
		if strings.HasPrefix(line, keepAlive) {
			r.gaps = append(r.gaps, time.Since(last))
			last = time.Now()
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.err = err
			}
			return r
		}
	}
}

// TestSoakTrickle holds the starter file to what it says of bodies: one that trickles is cut off in half a minute.
func TestSoakTrickle(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: quiet})
	g := startGateway(t, files{"gateway.hcl": hcl(up)})
	key := g.account(t, 1_000_000)
	type waiting struct {
		name    string
		refusal string
		reply   <-chan trickled
	}
	var all []waiting
	for _, s := range shapes {
		for path, refusal := range map[string]string{s.path: "HTTP/1.1 400 ", "/v1/models": "HTTP/1.1 405 ",
			"/nowhere": "HTTP/1.1 404 "} {
			all = append(all, waiting{s.name + " " + path, refusal, later(func() trickled { return trickle(g.URL, path, key) })})
		}
	}
	for _, w := range all {
		got := <-w.reply
		t.Run(w.name, func(t *testing.T) {
			require.NoError(t, got.err)
			if got.reply != "" { // otherwise the end of the connection has overtaken it
				require.True(t, strings.HasPrefix(got.reply, w.refusal), "%s", got.reply)
			}
		})
	}
}

// trickled is what came back on a connection until the gateway closed it.
type trickled struct {
	reply string
	err   error
}

// trickle posts a body of one byte a second, for as long as somebody reads it.
func trickle(url, path, key string) (r trickled) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return trickled{err: err}
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return trickled{err: err}
	}
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Length: "+
		"200000\r\n\r\n{", path, key)
	if err != nil {
		return trickled{err: err}
	}
	sent := later(func() error {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for range tick.C {
			if _, err := io.WriteString(conn, " "); err != nil {
				return err
			}
		}
		return nil
	})
	b, err := io.ReadAll(conn)
	if errors.Is(err, syscall.ECONNRESET) {
		err = nil // the gateway has closed it while a byte was on its way
	}
	if stopped := <-sent; errors.Is(stopped, os.ErrDeadlineExceeded) {
		err = stopped
	}
	return trickled{string(b), err}
}

// TestSoakMemory sends a hundred bodies of 32 MB at once, and then those that cost most in memory for their
// size, and looks at how large the gateway and its plugin have been at most.
func TestSoakMemory(t *testing.T) {
	up := upstream.Start(t, upstream.Options{Script: quiet})
	const budget = 512 << 20
	// What a gateway gives itself of a machine of which the budget is a fifth: no more of it should be for bodies.
	t.Setenv("GOMEMLIMIT", strconv.Itoa(3*budget))
	g := startGateway(t, files{"gateway.hcl": fmt.Sprintf("gateway {\n  max_body_memory = %d\n}\n", budget) + hcl(up)})
	key := g.account(t, 1_000_000)
	plugins := g.children(t)
	start := g.peak(t)
	const size = 32<<20 - 4096
	for name, element := range map[string]string{
		"one string":           "x ",
		"one string of braces": "{ ",
		"very many turns":      `{"role":"user","content":"forty bytes"},`,
		"very many objects":    `{},`,
		"very many arrays":     `[],`,
		"very many members":    `{"type":"text","text":"","audio":{}},`,
	} {
		t.Run(name, func(t *testing.T) {
			var sending sync.WaitGroup
			answers := make(chan string, 100)
			for i := range 100 {
				s := shapes[i%len(shapes)]
				sending.Go(func() { answers <- flood(t.Context(), s, g.URL, key, name, element, size) })
			}
			sending.Wait()
			close(answers)
			seen := map[string]int{}
			for a := range answers {
				seen[a]++
			}
			for a := range seen {
				require.Contains(t, []string{"400", "413", "429", "503", "closed"}, a, "%v", seen)
			}
			for _, s := range shapes { // there is room now: these are decoded, where they may be
				alone := flood(t.Context(), s, g.URL, key, name, element, size)
				require.Contains(t, []string{"400", "413", "503"}, alone)
				seen["alone "+alone]++
			}
			t.Logf("%v; at most %d MiB so far (%d MiB at the start)", seen, g.peak(t)>>20, start>>20)
		})
	}
	// What is set aside, as much again for the texts that are read out of it, and that twice over for Go's garbage
	// collector, whose limit is no hard one.
	require.Less(t, g.peak(t)-start, int64(4*budget))
	for _, p := range plugins {
		require.Less(t, peakOf(t, p.pid), int64(128<<20), "no such body reaches a plugin")
	}
	require.Equal(t, billing{Microcents: price(2, 1)},
		shapes[0].send(t, http.DefaultClient, g.URL, key, "hello", true).whole(t, shapes[0]))
}

// flood sends a body of size bytes, made of element, and returns the status, or "closed".
func flood(ctx context.Context, s shape, url, key, name, element string, size int) string {
	before, after := `{"model":"service/auto","max_tokens":10,"messages":[{"role":"user","content":`, `}],"input":"x"}`
	switch {
	case strings.HasPrefix(name, "one string"):
		before, after = before+`"`, `"`+after
	case name == "very many turns":
		before, after = `{"model":"service/auto","max_tokens":10,"messages":[`, `{"role":"user","content":"x"}]}`
	default:
		before, after = before+"[", strings.TrimSuffix(element, ",")+"]"+after
	}
	if s.name == "responses" {
		before = strings.Replace(before, "messages", "input", 1)
		after = strings.Replace(after, `,"input":"x"`, "", 1)
	}
	n := (size - len(before) - len(after)) / len(element)
	body := io.MultiReader(strings.NewReader(before), &repeated{element: element, left: n * len(element)},
		strings.NewReader(after))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+s.path, body)
	if err != nil {
		return err.Error()
	}
	req.ContentLength = int64(len(before) + n*len(element) + len(after))
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "closed"
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return strconv.Itoa(resp.StatusCode)
}

// repeated reads as an element, again and again, for left bytes.
type repeated struct {
	element string
	left    int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	// What is left is always a whole number of elements at the end of a read.
	p = p[:min(len(p)/len(r.element)*len(r.element), r.left)]
	for i := 0; i < len(p); i += len(r.element) {
		copy(p[i:], r.element)
	}
	r.left -= len(p)
	return len(p), nil
}

// peak is the most memory that the gateway's process has had so far, in bytes.
func (g *gateway) peak(t testing.TB) int64 { return peakOf(t, g.cmd.Process.Pid) }

func peakOf(t testing.TB, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(b), "VmHWM:")
	require.True(t, ok)
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	require.NoError(t, err)
	return kib << 10
}
