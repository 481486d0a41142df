package main_test

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkGatewayLatency measures what a request of 1.2 KB takes longer than at the upstream itself: over one
// connection, one after the other, and at 1,000 requests a second, whose times count from when they were due. The
// upstream, the proxy and the gateway take turns, and so does the disk, which is synced before a reply's end: what
// that takes alone is printed beside them. -benchtime bounds the requests of each, at least 1,000.
func BenchmarkGatewayLatency(b *testing.B) {
	m := newBenchMachines(b)
	kind := benchKinds()[0]
	type side struct {
		name  string
		url   string
		key   string
		times []time.Duration
	}
	var table strings.Builder
	defer func() { fmt.Println(table.String()) }()
	for _, load := range []struct {
		name  string
		conns int
		rate  int // requests a second; 0 for one after the other
	}{{"conns=1", 1, 0}, {"rate=1000", 64, 1000}} {
		var text strings.Builder
		b.Run(load.name, func(b *testing.B) {
			sides := []*side{{name: "upstream", url: m.upstream}, {name: "reverse_proxy", url: m.proxy.url},
				{name: "gateway", url: m.gateways["host"].url, key: m.keys["host"]}}
			clients := make(map[*side][]*benchClient)
			for _, s := range sides {
				for range load.conns {
					clients[s] = append(clients[s], dialBench(b, s.url, kind, s.key))
				}
				require.NoError(b, drive(clients[s], load.conns))
			}
			disk := newBenchDisk(b)
			b.ResetTimer()
			each := max(b.N, 1000)
			for round := range benchRounds {
				n := each*(round+1)/benchRounds - each*round/benchRounds
				for _, s := range sides {
					times, err := driveTimed(clients[s], n, load.rate)
					require.NoError(b, err)
					s.times = append(s.times, times...)
				}
				disk.sync(b, n)
			}
			b.StopTimer()
			for _, s := range sides {
				slices.Sort(s.times)
			}
			direct := sides[0].times
			text.Reset() // of a shorter run
			fmt.Fprintf(&text, "\n%s: added latency in milliseconds, over %d requests\n", load.name, each)
			for _, s := range sides[1:] {
				p50, p99 := at(s.times, 50)-at(direct, 50), at(s.times, 99)-at(direct, 99)
				printLatency(&text, s.name, p50, p99)
				if s.key != "" {
					b.ReportMetric(p50, "p50-ms")
					b.ReportMetric(p99, "p99-ms")
				}
			}
			slices.Sort(disk.times)
			printLatency(&text, "a sync", at(disk.times, 50), at(disk.times, 99))
			b.ReportMetric(0, "ns/op") // of all together: it says nothing
		})
		table.WriteString(text.String())
	}
}

func printLatency(w io.Writer, name string, p50, p99 float64) {
	fmt.Fprintf(w, "  %-14s p50 %6.3f   p99 %6.3f\n", name, p50, p99)
}

// benchDisk measures what the disk of the ledgers takes for a durable write.
type benchDisk struct {
	file  *os.File
	times []time.Duration
}

// benchWrite is what the log of settlements gets at least; benchLog is how long it is.
const (
	benchWrite = 4 << 10
	benchLog   = 32 << 20
)

func newBenchDisk(b *testing.B) *benchDisk {
	f, err := os.Create(filepath.Join(b.TempDir(), "disk"))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, f.Close()) })
	_, err = f.Write(make([]byte, benchLog)) // what is written later has its place
	require.NoError(b, err)
	require.NoError(b, f.Sync())
	return &benchDisk{file: f}
}

// sync writes and syncs n times, one after the other.
func (d *benchDisk) sync(b *testing.B, n int) {
	page := make([]byte, benchWrite)
	for i := range n {
		start := time.Now()
		_, err := d.file.WriteAt(page, int64(i)*benchWrite%benchLog)
		require.NoError(b, err)
		require.NoError(b, unix.Fdatasync(int(d.file.Fd())))
		d.times = append(d.times, time.Since(start))
	}
}

// at is a percentile, in milliseconds.
func at(sorted []time.Duration, percent int) float64 {
	return float64(sorted[(len(sorted)-1)*percent/100].Microseconds()) / 1000
}

// driveTimed sends n requests, so many a second, or each connection one after the other, and returns what they took.
// With a rate the time counts from when a request was due, also where no connection was free.
func driveTimed(clients []*benchClient, n, rate int) ([]time.Duration, error) {
	times := make([]time.Duration, n)
	due := make(chan int, n)
	began := time.Now()
	at := func(i int) time.Time {
		if rate == 0 {
			return time.Time{}
		}
		return began.Add(time.Duration(i) * time.Second / time.Duration(rate))
	}
	for i := range n {
		due <- i
	}
	close(due)
	errs := make(chan error, len(clients))
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			for i := range due {
				start := at(i)
				<-time.After(time.Until(start))
				if start.IsZero() {
					start = time.Now()
				}
				if err := c.once(); err != nil {
					errs <- err
					return
				}
				times[i] = time.Since(start)
			}
		})
	}
	wg.Wait()
	close(errs)
	return times, <-errs // nil when there is none
}

// BenchmarkGatewayMemory prints what all processes of the server have in memory (the proportional set size, so that
// what the gateway and the provider share counts once): at rest, while 10 connections send JSON, and a minute after.
func BenchmarkGatewayMemory(b *testing.B) {
	const conns, load, rest = 10, 15 * time.Second, time.Minute
	upstream := startUpstream(b)
	kind := benchKinds()[0]
	var table strings.Builder
	fmt.Fprintf(&table, "\nMemory (PSS) in MB, %d connections; to reach: 120 under load, 90 a minute after\n\n", conns)
	fmt.Fprintf(&table, "  %-14s %8s   %10s   %14s\n", "", "at rest", "under load", "a minute after")
	for _, name := range []string{"reverse_proxy", "gateway"} {
		var text string
		b.Run(name, func(b *testing.B) {
			var server *benchServer
			var key string
			if name == "gateway" {
				server, key = benchGateway(b, strings.Replace(benchGateways["host"], "UPSTREAM", upstream, 1))
			} else {
				server = benchProxy(b, upstream)
			}
			<-time.After(2 * lookedAt) // what the start took has been given back
			atRest := server.resident(b)
			side := newSide(b, server, kind, conns, key)
			var most float64
			for began := time.Now(); time.Since(began) < load; {
				side.send(b, 1000)
				most = max(most, server.resident(b))
			}
			<-time.After(rest)
			after := server.resident(b)
			text = fmt.Sprintf("  %-14s %8.0f   %10.0f   %14.0f\n", name, atRest, most, after)
			b.ReportMetric(most, "MB")
			b.ReportMetric(after, "MB-after")
			b.ReportMetric(0, "ns/op")
		})
		table.WriteString(text)
	}
	fmt.Println(table.String())
}

// lookedAt is how often a process looks whether it has memory to give back.
const lookedAt = 5 * time.Second

// BenchmarkGatewayStreamMemory prints what a stream that has begun and waits for its upstream holds, in all processes.
func BenchmarkGatewayStreamMemory(b *testing.B) {
	const streams = 500
	m := newBenchMachines(b)
	kind := benchKind{body: benchBody(`,"stream":true`, benchIdle, 0)}
	var table strings.Builder
	fmt.Fprintf(&table, "\nMemory of an idle stream in KiB, heap and stacks in use, all processes, over %d streams\n",
		streams)
	for _, name := range []string{"reverse_proxy", "gateway", "process"} {
		var text string
		b.Run(name, func(b *testing.B) {
			server, key := m.proxy, ""
			if name != "reverse_proxy" {
				gateway := cmp.Or(map[string]string{"process": "process"}[name], "host")
				server, key = m.gateways[gateway], m.keys[gateway]
			}
			before := server.memory(b)
			for range streams {
				require.NoError(b, dialBench(b, server.url, kind, key).begin())
			}
			each := float64(server.memory(b)-before) / streams / 1024
			text = fmt.Sprintf("  %-14s %6.1f\n", name, each)
			b.ReportMetric(each, "KiB/stream")
			b.ReportMetric(0, "ns/op")
		})
		table.WriteString(text)
	}
	fmt.Println(table.String())
}
