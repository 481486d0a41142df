//go:build linux

package main_test

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

var memStats = regexp.MustCompile(`# (HeapAlloc|Stack) = (\d+)`)

// memory is what the gateway's process holds.
func (g *gateway) memory(t testing.TB) int64 {
	t.Helper()
	return heapAndStacks(t, g.admin)
}

// heapAndStacks is what a process holds after a collection of its garbage, stacks included, in bytes; admin is a
// client of its Caddy's admin endpoint.
func heapAndStacks(t testing.TB, admin *http.Client) int64 {
	t.Helper()
	var total int64
	for range 2 { // what sync.Pools keep goes with the second
		resp, err := admin.Get("http://localhost/debug/pprof/heap?gc=1&debug=1")
		require.NoError(t, err)
		defer resp.Body.Close()
		profile, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		total = 0
		for _, m := range memStats.FindAllStringSubmatch(string(profile), -1) {
			n, err := strconv.ParseInt(m[2], 10, 64)
			require.NoError(t, err)
			total += n
		}
	}
	require.Positive(t, total)
	return total
}

// TestStreamMemory: a stream that has begun costs what it needs to go on, however long its prompt was; one that waits
// for its upstream costs its prompt twice, and no buffer that was needed to send it; and all of it comes back.
func TestStreamMemory(t *testing.T) {
	t.Parallel()
	const leftOver = 4 << 20 // bytes in all; a multiple of what is measured, as the others are
	up := upstream.Start(t, upstream.Options{Script: func(req *upstream.Request) upstream.Reply {
		if strings.HasSuffix(req.LastUser(), "silent") {
			silent := halfway("silent")
			silent.Steps = append([]upstream.Step{upstream.Wait("silent")}, silent.Steps...)
			return silent
		}
		return halfway("begun")
	}})
	g := startGateway(t, files{"gateway.hcl": "gateway {\n  keepalive = \"100ms\"\n}\n" + hcl(up)})
	key := g.account(t, 1_000_000)
	open := func(t *testing.T, i int, prompt, kind string) *live {
		l := shapes[i%len(shapes)].send(t, http.DefaultClient, g.URL, key, prompt+kind, true)
		if kind == "begun" {
			l.until(t, "one ")
		}
		return l
	}
	for kind, c := range map[string]struct{ streams, prompt, each int }{
		"begun":  {streams: 50, prompt: 300 << 10, each: 150 << 10},
		"silent": {streams: 50, prompt: 60 << 10, each: 350 << 10},
	} {
		t.Run(kind, func(t *testing.T) {
			for i := range shapes { // pools, pages and connections are there before it counts
				defer open(t, i, "warm up ", kind).Body.Close()
			}
			text := strings.Repeat("The keeper wrote down every ship. ", c.prompt/34)
			before := g.memory(t)
			var all []*live
			for i := range c.streams {
				all = append(all, open(t, i, text, kind))
			}
			require.NoError(t, up.AtGate(withTimeout(t), kind, c.streams), "all of every prompt was sent")
			each := (g.memory(t) - before) / int64(c.streams)
			t.Logf("%d bytes a stream", each)
			require.Less(t, each, int64(c.each))
			up.Open(kind)
			for i, l := range all {
				l.whole(t, shapes[i%len(shapes)])
			}
			g.settled(t)
			left := g.memory(t) - before
			t.Logf("%d bytes are left", left)
			require.Less(t, left, int64(leftOver))
		})
	}
}
