package main_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// benchKind is a kind of request that is measured. Its reply is whole when it ends with end.
type benchKind struct {
	name, title string
	body, end   string
	conns       []int
	carry       string // "" for the gateway itself
}

// benchKinds are requests of about 1.2, 20 and 200 KB, the last of which are conversations. Their replies are those of
// bench-upstream: a JSON body of about 0.5 KB, or 100 deltas.
func benchKinds() []benchKind {
	const turn = "The lighthouse keeper wrote down the wind, the height of the waves and every ship that passed. "
	body := func(more string, length int) string {
		said := strings.Repeat(turn, 11)
		var b strings.Builder
		fmt.Fprintf(&b, `{"model":"service/auto","max_tokens":400%s,`+
			`"messages":[{"role":"system","content":"You answer briefly."},`, more)
		for b.Len()+len(said) < length {
			fmt.Fprintf(&b, `{"role":"user","content":"%s"},{"role":"assistant","content":"I see.\n"},`, said)
		}
		fmt.Fprintf(&b, `{"role":"user","content":"%s"}]}`, said)
		return b.String()
	}
	const whole, streamed, end = "", `,"stream":true`, "data: [DONE]\n\n"
	return []benchKind{
		{"json", "in one piece", body(whole, 0), "}", []int{1, 16, 64}, ""},
		{"json-20K", "in one piece", body(whole, 20<<10), "}", []int{16}, ""},
		{"json-200K", "in one piece", body(whole, 200<<10), "}", []int{16}, ""},
		{"stream", "100 deltas", body(streamed, 0), end, []int{1, 16, 64}, ""},
		{"process-json", "in one piece", body(whole, 0), "}", []int{64}, "process"},
		{"process-json-20K", "in one piece", body(whole, 20<<10), "}", []int{16}, "process"},
		{"process-stream", "100 deltas", body(streamed, 0), end, []int{64}, "process"},
	}
}

// The routes cost next to nothing, so that the trial credits last for any number of requests.
const benchHCL = `
plan "trial" {
  requests_per_minute {
    key     = 0
    account = 0
    address = 0
  }
}

provider "upstream" {
  plugin = "openai"
  carry  = "%[2]s"
  config {
    base_url = "%[1]s/v1"
  }
}

route "only" {
  provider       = "upstream"
  model          = "bench"
  context_window = 1000000
  max_output     = 4096
  quality        = 0.5
  price {
    input  = 0.0001
    output = 0.0001
  }
}
`

// BenchmarkGateway measures the CPU time (user and system, by the operating system's accounting) that the whole
// gateway, host and plugin process, takes for a request of the chat family: authenticated, held, routed,
// translated, sent upstream, delivered, charged durably and logged. Beside it stands what the same binary takes
// as a plain `reverse_proxy` to the same upstream. The two take turns within a run, so that a busy machine is
// busy for both; the ratio is what to look at, and it repeats within about a tenth. The load generator (this
// process) and the upstream (one of its own) are not counted.
func BenchmarkGateway(b *testing.B) {
	upstream := startUpstream(b)
	proxy := benchProxy(b, upstream)
	gateways, keys := make(map[string]*benchServer), make(map[string]string)
	for _, carry := range []string{"host", "process"} {
		gateways[carry], keys[carry] = benchGateway(b, upstream, carry)
	}

	var rows []benchRow
	for _, kind := range benchKinds() {
		carry := cmp.Or(kind.carry, "host")
		for _, conns := range kind.conns {
			row := benchRow{kind: kind, conns: conns}
			measured := b.Run(fmt.Sprintf("%s/conns=%d", kind.name, conns), func(b *testing.B) {
				row.gateway = newSide(b, gateways[carry], kind, conns, keys[carry])
				row.proxy = newSide(b, proxy, kind, conns, "")
				b.ResetTimer()
				row.measure(b)
			})
			if measured && row.gateway != nil {
				rows = append(rows, row)
			}
		}
	}
	printBench(rows)
}

// A row of the table: both sides after their last run.
type benchRow struct {
	kind           benchKind
	conns          int
	gateway, proxy *benchSide
}

// turns is how often the two sides change over within a run.
const turns = 8

// measure sends b.N requests to each side.
func (r *benchRow) measure(b *testing.B) {
	for turn := range turns {
		n := b.N*(turn+1)/turns - b.N*turn/turns
		r.gateway.send(b, n)
		r.proxy.send(b, n)
	}
	b.StopTimer()
	b.ReportMetric(0, "ns/op") // of both together: it says nothing
	b.ReportMetric(r.gateway.cpuPerRequest(), "cpu-us/op")
	b.ReportMetric(r.proxy.cpuPerRequest(), "proxy-cpu-us/op")
	b.ReportMetric(r.ratio(), "ratio")
	b.ReportMetric(r.gateway.rate(), "req/s")
	b.ReportMetric(r.proxy.rate(), "proxy-req/s")
}

func (r *benchRow) ratio() float64 {
	if r.proxy.cpu == 0 { // less than the clock's tick
		return 0
	}
	return r.gateway.cpuPerRequest() / r.proxy.cpuPerRequest()
}

// benchSide is one of the two servers under one load.
type benchSide struct {
	server  *benchServer
	clients []*benchClient

	requests  int
	cpu, wall time.Duration
}

func newSide(b *testing.B, server *benchServer, kind benchKind, conns int, key string) *benchSide {
	s := &benchSide{server: server}
	for range conns {
		s.clients = append(s.clients, dialBench(b, server.url, kind, key))
	}
	require.NoError(b, drive(s.clients, conns)) // connections, pools and pages are there before it counts
	return s
}

func (s *benchSide) send(b *testing.B, n int) {
	before, began := s.server.cpu(b), time.Now()
	require.NoError(b, drive(s.clients, n))
	s.wall += time.Since(began)
	s.cpu += s.server.cpu(b) - before
	s.requests += n
}

func (s *benchSide) cpuPerRequest() float64 {
	return float64(s.cpu.Microseconds()) / float64(s.requests)
}

func (s *benchSide) rate() float64 { return float64(s.requests) / s.wall.Seconds() }

func printBench(rows []benchRow) {
	if len(rows) == 0 {
		return
	}
	fmt.Print(`
CPU time for one chat request, in microseconds, user and system, all processes of the server together.
reverse_proxy is this same binary as a plain proxy to the same upstream: it neither looks, nor translates, nor charges.
In rows that begin with "process" the provider's process makes the upstream calls, in the others the gateway itself.

  request            reply          connections   gateway   reverse_proxy   ratio   requests/s   requests
`)
	for _, r := range rows {
		fmt.Printf("  %-18s %-14s %11d   %7.0f   %13.0f   %5.2f   %10.0f   %8d\n", r.kind.name, r.kind.title, r.conns,
			r.gateway.cpuPerRequest(), r.proxy.cpuPerRequest(), r.ratio(), r.gateway.rate(), r.gateway.requests)
	}
	fmt.Println()
}
