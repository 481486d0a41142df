//go:build linux

package main_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// goroutines is how many the gateway's process has.
func (g *gateway) goroutines(t testing.TB) int {
	t.Helper()
	resp, err := g.admin.Get("http://localhost/debug/pprof/goroutine?debug=1")
	require.NoError(t, err)
	defer resp.Body.Close()
	profile, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	total := regexp.MustCompile(`^goroutine profile: total (\d+)`).FindSubmatch(profile)
	require.NotNil(t, total)
	n, err := strconv.Atoi(string(total[1]))
	require.NoError(t, err)
	return n
}

// descriptors is how many files and connections it has open.
func (g *gateway) descriptors(t testing.TB) int {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.cmd.Process.Pid))
	require.NoError(t, err)
	return len(open)
}

// save saves the configuration, as editors do, so that nobody reads it half written, and has it loaded at once, as it
// would be within two seconds.
func (g *gateway) save(t testing.TB, hcl string) {
	t.Helper()
	files{"gateway.hcl.new": hcl}.write(t, g.Dir)
	require.NoError(t, os.Rename(filepath.Join(g.Dir, "gateway.hcl.new"), filepath.Join(g.Dir, "gateway.hcl")))
	g.call(t, "POST", "/fareway/reload", nil, nil)
}

// TestSavesUnderLoad: 100 saves while streams run and requests come: none is broken or refused, and no process,
// descriptor or goroutine is left.
func TestSavesUnderLoad(t *testing.T) {
	t.Parallel()
	const saves, slack = 100, 15 // connections that are kept for the next request
	up := upstream.Start(t, upstream.Options{Script: gated})
	config := hcl(up)
	g := startGateway(t, files{"gateway.hcl": config})
	key := g.account(t, 100_000_000)
	for _, s := range shapes {
		s.send(t, http.DefaultClient, g.URL, key, "hello", true).whole(t, s)
	}
	processes, goroutines, descriptors := len(g.children(t)), g.goroutines(t), g.descriptors(t)
	require.Equal(t, 1, processes)
	streams := openAll(t, g, up, key)

	ctx, end := context.WithCancel(t.Context())
	served := make(chan int, 1)
	go func() {
		n := 0
		defer func() { served <- n }()
		for ; ctx.Err() == nil; n++ {
			s := shapes[n%len(shapes)]
			s.send(t, http.DefaultClient, g.URL, key, "hello", true).whole(t, s)
		}
	}()
	for i := range saves {
		text := strings.Replace(config, "input  = 3", fmt.Sprintf("input  = 3 # %d", i), 1)
		if i%20 == 10 { // another process each time
			text = strings.Replace(text, "base_url =", fmt.Sprintf("idle_timeout = \"%dm\"\n    base_url =", 5+i), 1)
		}
		g.save(t, text)
	}
	end()
	t.Logf("%d requests beside the saves", <-served)

	up.Open("go")
	for _, s := range shapes {
		require.Equal(t, billing{Microcents: price(4, 2)}, streams[s.name].whole(t, s), s.name)
	}
	g.settled(t)
	http.DefaultClient.CloseIdleConnections()
	eventually(t, func() (bool, string) {
		p, r, d := len(g.children(t)), g.goroutines(t), g.descriptors(t)
		return p == processes && r <= goroutines+slack && d <= descriptors+slack,
			fmt.Sprintf("%d processes, %d goroutines and %d descriptors of %d, %d and %d", p, r, d, processes, goroutines,
				descriptors)
	})
}
