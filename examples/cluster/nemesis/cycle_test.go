//go:build linux && (nemesis || soak)

package nemesis

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/examples/cluster"
	"github.com/fareway/fareway/examples/cluster/machines"
)

// mayBeAway is how long there may be no answer after a fault that the cluster mends by itself.
const mayBeAway = 30 * time.Second

// patience bounds what is waited for, and is no part of what is tested.
const patience = 2 * time.Minute

// only chooses faults: go test -tags nemesis ./examples/cluster/nemesis -faults primary
var only = flag.String("faults", "", "a regular expression for the names of the faults that are to be")

// nemesis is a run: a cluster, its clients and what has happened so far.
type nemesis struct {
	*cluster.Cluster
	dir     string
	rng     *rand.Rand
	clients *clients
	cycles  []cycle
	seen    map[string]bool // requests of earlier cycles
}

// cycle is one fault, and the time around it.
type cycle struct {
	name           string
	affected       []*cluster.Node // gateways whose settlements may wait in their spools, or have
	began, ended   time.Time       // of the requests
	broken, mended time.Time
	alone          bool // what was broken is there once only: nobody answers meanwhile
	calm           map[string]int64
	longest        time.Duration // without an answer
}

// torment runs cycles: requests go on, something is broken and mended, and when all is calm the books are compared.
func torment(t *testing.T, cycles int) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dir := filepath.Join(machines.Scratch, "cluster")
	programs, err := filepath.Abs("../../../bin")
	require.NoError(t, err)
	c, err := cluster.New(cluster.Options{Dir: dir, Fareway: filepath.Join(programs, "fareway"),
		Upstream: filepath.Join(programs, "fake-upstream"), Log: io.Discard})
	require.NoError(t, err)
	n := &nemesis{Cluster: c, dir: dir, rng: rand.New(rand.NewPCG(seed, 0)), seen: map[string]bool{}}
	t.Cleanup(func() {
		if t.Failed() {
			n.keepLogs(t)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, c.Start(ctx), "with the programs of `make nemesis`")
	n.clients = newClients(ctx, t, c)

	chosen := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
		return !regexp.MustCompile(*only).MatchString(f.name)
	})
	require.NotEmpty(t, chosen, "faults whose name matches %s", *only)
	for i := range cycles {
		n.run(t, chosen[i%len(chosen)])
	}
	n.compare(t)
}

// run is one cycle.
func (n *nemesis) run(t *testing.T, f fault) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	c := cycle{name: f.name, alone: f.alone, began: time.Now()}
	spooled := n.spooled(t)
	stop := n.clients.start()
	n.clients.awaitAnswers(ctx, t, 30)
	c.broken = time.Now()
	undo, what, err := f.do(ctx, n)
	require.NoError(t, err, f.name)
	c.name += what
	c.affected = c.spooling(n.Gateways)
	wait(ctx, f.lasts)
	require.NoError(t, undo(), c.name)
	c.mended = time.Now()
	require.NoError(t, n.AwaitReady(ctx), c.name)
	n.clients.awaitAnswers(ctx, t, 30)
	require.NoError(t, n.AwaitDatabase(ctx), c.name)
	c.longest = n.clients.longestSilence(c.began, time.Now())
	stop()
	c.ended = time.Now()
	n.awaitCalm(ctx, t)
	for i, times := range n.spooled(t) {
		if times > spooled[i] { // it waited for an account that a slow one kept locked
			c.affected = append(c.affected, n.Gateways[i])
		}
	}
	c.calm = n.clients.readBalances(ctx, t)
	n.cycles = append(n.cycles, c)
	t.Logf("%3d %-60s %4d sent, %4d answered, %5.1f s without an answer, %.0f s in all; %s", len(n.cycles), c.name,
		len(n.clients.sentIn(c.began, c.ended)), n.clients.answeredIn(c.began, c.ended), c.longest.Seconds(),
		time.Since(c.began).Seconds(), n.clients.statuses(c.began, c.ended))
	bound := mayBeAway + f.first
	if c.alone {
		bound += c.mended.Sub(c.broken)
	}
	if c.longest > bound {
		t.Errorf("%s: nobody was answered for %s", c.name, c.longest)
	}
	n.compareCycle(t, c)
}

// spooling are the gateways that may not reach the database: those that the fault names, all if it is the database's,
// and none otherwise.
func (c cycle) spooling(all []*cluster.Node) []*cluster.Node {
	named := slices.DeleteFunc(slices.Clone(all), func(g *cluster.Node) bool { return !c.breaks(g.Name) })
	if len(named) == 0 && c.breaks("postgres", "PostgreSQL", "etcd") || c.breaks(" and ") {
		return all
	}
	return named
}

// spooled is how often each gateway has said that settlements of its spool came into the ledger.
func (n *nemesis) spooled(t *testing.T) (times []int) {
	t.Helper()
	for _, g := range n.Gateways {
		log, err := os.ReadFile(filepath.Join(n.DataOf(g), "gateway.log"))
		require.NoError(t, err)
		times = append(times, strings.Count(string(log), "the settlements of the spool are taken up"))
	}
	return times
}

// wait is how long a fault lasts.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// keepLogs puts the logs where CI finds them.
func (n *nemesis) keepLogs(t *testing.T) {
	to, err := filepath.Abs("../../../.cache/nemesis")
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(to))
	logs, err := filepath.Glob(filepath.Join(n.dir, "*", "*.log"))
	require.NoError(t, err)
	more, err := filepath.Glob(filepath.Join(n.dir, "*", "data", "*.log"))
	require.NoError(t, err)
	for _, log := range append(append(logs, more...), n.UpstreamLog()) {
		text, err := os.ReadFile(log)
		require.NoError(t, err)
		relative, err := filepath.Rel(n.dir, log)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(to, relative)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(to, relative), text, 0o644))
	}
	t.Logf("the logs of all machines are in %s", to)
}

// pick is one of some.
func (n *nemesis) pick(nodes []*cluster.Node) *cluster.Node { return nodes[n.rng.IntN(len(nodes))] }

// named says which machines it is.
func named(what string, nodes ...*cluster.Node) string {
	for i, n := range nodes {
		what += fmt.Sprint(map[bool]string{true: " ", false: " to "}[i == 0], n.Name)
	}
	return what
}
