//go:build linux && soak

package main_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestSoakCrash is TestCrash for as long as it takes to find what is rare.
func TestSoakCrash(t *testing.T) {
	t.Parallel()
	crashes(t, 200)
}

// TestSoakSilence is two minutes of a route that says nothing: longer than any timeout of Caddy's. Streams live
// on by their keep-alives, also behind a proxy that closes after 20 seconds; whole replies live without.
func TestSoakSilence(t *testing.T) {
	t.Parallel()
	const silence, interval = 120 * time.Second, 15 * time.Second
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
	ctx, cancel := context.WithTimeout(t.Context(), 2*silence)
	t.Cleanup(cancel)

	for _, proto := range slices.Sorted(maps.Keys(direct)) {
		for _, s := range shapes {
			line, clause := s.keepAlive()
			t.Run("SSE-25 "+clause+" streamed/"+s.name+" "+proto, func(t *testing.T) {
				t.Parallel()
				gate := s.name + proto + "streamed"
				req, err := s.newRequest(ctx, g.URL, key, "be quiet until "+gate, true)
				require.NoError(t, err)
				stream := do(t, proxied[proto], req)
				require.Equal(t, proto, stream.Proto)
				last := time.Now()
				for range silence / interval {
					stream.until(t, line)
					gap := time.Since(last)
					last = time.Now()
					require.InDelta(t, interval.Seconds(), gap.Seconds(), 2)
				}
				up.Open(gate)
				require.Equal(t, quietCost, stream.whole(t, s))
			})
			t.Run("whole/"+s.name+" "+proto, func(t *testing.T) {
				t.Parallel()
				gate := s.name + proto + "whole"
				timer := time.AfterFunc(silence, func() { up.Open(gate) })
				t.Cleanup(func() { timer.Stop() })
				req, err := s.newRequest(ctx, g.URL, key, "be quiet until "+gate, false)
				require.NoError(t, err)
				reply := do(t, direct[proto], req)
				require.Equal(t, proto, reply.Proto)
				require.Equal(t, http.StatusOK, reply.StatusCode)
				require.Contains(t, reply.all(t), "at last")
			})
		}
	}
}

// TestSoakTrickle holds the starter file to what it says of bodies: one that trickles is cut off in half a minute.
func TestSoakTrickle(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: quiet})
	g := startGateway(t, files{"gateway.hcl": hcl(up)})
	key := g.account(t, 1_000_000)
	for _, s := range shapes {
		for _, path := range []string{s.path, "/v1/models", "/nowhere"} {
			t.Run(s.name+" "+path, func(t *testing.T) {
				t.Parallel()
				conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
				require.NoError(t, err)
				defer conn.Close()
				require.NoError(t, conn.SetDeadline(time.Now().Add(2*time.Minute)))
				_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Length: 200000\r\n\r\n{", path, key)
				require.NoError(t, err)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					tick := time.NewTicker(time.Second)
					defer tick.Stop()
					for range tick.C {
						if _, err := io.WriteString(conn, " "); err != nil {
							return // closed
						}
					}
				}()
				reply, err := io.ReadAll(conn)
				if err != nil {
					require.ErrorContains(t, err, "reset", "it was read on while the bytes came")
				}
				<-ended
				if path == s.path && len(reply) > 0 {
					require.Contains(t, string(reply), "HTTP/1.1 400 ")
				}
			})
		}
	}
}

// TestSoakMemory sends a hundred bodies of 32 MB at once, and then those that cost most in memory for their
// size, and looks at how large the gateway and its plugin have been at most.
func TestSoakMemory(t *testing.T) { //nolint:paralleltest // what else runs would compete for the memory
	up := upstream.Start(t, upstream.Options{Script: quiet})
	const budget = 512 << 20
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
	// What is set aside, and as much again twice over: for what a body leaves behind as it grows, and for Go's
	// garbage collector, which waits for that.
	require.Less(t, g.peak(t)-start, int64(3*budget))
	for _, p := range plugins {
		require.Less(t, peakOf(t, p.pid), int64(128<<20), "no such body reaches a plugin")
	}
	require.Equal(t, billing{Microcents: price(2, 1)}, shapes[0].send(t, http.DefaultClient, g.URL, key, "hello", true).whole(t, shapes[0]))
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
	body := io.MultiReader(strings.NewReader(before), &repeated{element: element, left: n * len(element)}, strings.NewReader(after))
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
