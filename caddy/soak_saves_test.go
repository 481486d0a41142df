//go:build linux && soak

package main_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestSoakManyProviders: 80 providers reloaded 200 times in flat memory.
func TestSoakManyProviders(t *testing.T) {
	t.Parallel()
	const providers, reloads = 80, 200
	const leftOver = 8 << 20 // bytes; a generation of this size has some hundred KB
	up := upstream.Start(t, upstream.Options{})
	config := strings.ReplaceAll(hcl(up), `start_timeout = "1m"`, `start_timeout = "10m"`)
	block := config[strings.Index(config, `provider "up"`):] // and its route
	for i := range providers - 1 {
		config += strings.NewReplacer(`"up"`, fmt.Sprintf(`"up%d"`, i), `"standard"`, fmt.Sprintf(`"standard%d"`, i)).
			Replace(block)
	}
	g := startGateway(t, files{"gateway.hcl": config})
	require.Len(t, g.children(t), providers)
	edit := func(i int) string {
		text := strings.Replace(config, "input  = 3", fmt.Sprintf("input  = 3 # %d", i), 1)
		return strings.Replace(text, "base_url =", fmt.Sprintf("idle_timeout = \"%dm\"\n    base_url =", 5+i%40), 1)
	}
	for i := range 20 { // what is kept from then on is in memory
		g.save(t, edit(i))
	}
	before, goroutines := g.memory(t), g.goroutines(t)
	for i := range reloads {
		g.save(t, edit(20+i))
	}
	eventually(t, func() (bool, string) {
		n := len(g.children(t))
		return n == providers, fmt.Sprintf("%d processes", n)
	})
	after := g.memory(t)
	t.Logf("%d KiB before, %d KiB after", before>>10, after>>10)
	require.Less(t, after, before+leftOver)
	require.LessOrEqual(t, g.goroutines(t), goroutines+15)
}
