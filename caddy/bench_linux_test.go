package main_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// benchKind is a kind of request that is measured. Its reply is whole when it ends with end.
type benchKind struct {
	name, reply string
	path        string // "" for chat completions
	body        string
	end         string
	proxyEnd    string // of what the upstream says, where that is translated; "" for end
	refused     bool   // the reply is a refusal
	conns       []int
	gateway     string // of benchGateways; "" for the first
	least       int    // requests for each connection in a round, where they take their time
	per         int64  // what the figures are for, in a request; 0 for the request

	goals map[int]benchGoal // by connections
}

// benchGoal is what a row is to reach, as ratios to the proxy's; 0 for none.
type benchGoal struct {
	cpu, first float64
	p50        float64 // besides 1.5 times a sync of the disk
}

// What bench-upstream says and understands.
const (
	benchDelta  = " word"
	benchDeltas = 100
	benchPaced  = "One word at a time, please."
	benchIdle   = "Begin, and wait."
)

const (
	benchDone    = "data: [DONE]\n\n"
	benchStopped = "data: {\"type\":\"message_stop\"}\n\n"
	benchTurn    = "The lighthouse keeper wrote down the wind, the height of the waves and every ship that passed. "
)

// benchKinds are requests of about 1.2, 20 and 200 KB, the last of which are conversations, and that of 200 KB one of
// a coding agent with its tools. Their replies are those of bench-upstream: a JSON body of about 0.5 KB, or 100
// deltas, in a burst or one every 10 ms.
func benchKinds() []benchKind {
	const streamed = `,"stream":true`
	short := benchBody("", "", 0)
	messages := `{"model":"service/auto","max_tokens":400,"stream":true,"system":"You answer briefly.","messages":[` +
		`{"role":"user","content":"` + strings.Repeat(benchTurn, 11) + `"}]}`
	return []benchKind{
		{name: "json", reply: "JSON", body: short, end: "}", conns: []int{1, 10, 64, 256}, goals: map[int]benchGoal{
			1: {cpu: 1.5}, 10: {cpu: 1.3, p50: 1.5}, 64: {cpu: 1.1}, 256: {cpu: .9}}},
		{name: "json-20K", reply: "JSON", body: benchBody("", "", 20<<10), end: "}", conns: []int{16},
			goals: map[int]benchGoal{16: {cpu: 1.35}}},
		{name: "json-200K", reply: "JSON", body: benchAgent(200 << 10), end: "}", conns: []int{16}},
		{name: "stream", reply: "100 deltas", body: benchBody(streamed, "", 0), end: benchDone, conns: []int{1, 10, 64, 256},
			goals: map[int]benchGoal{10: {first: 1.15}, 64: {cpu: 1.35}}},
		{name: "translated", reply: "100 deltas", path: "/v1/messages", body: messages, end: benchStopped,
			proxyEnd: benchDone, conns: []int{64}},
		{name: "paced", reply: "a delta of 100", body: benchBody(streamed, benchPaced, 0), end: benchDone, conns: []int{32},
			least: 1, per: benchDeltas},
		{name: "routes-json", reply: "JSON", body: short, end: "}", conns: []int{64}, gateway: "routes"},
		{name: "routes-json-20K", reply: "JSON", body: benchBody("", "", 20<<10), end: "}", conns: []int{16},
			gateway: "routes"},
		{name: "process-json", reply: "JSON", body: short, end: "}", conns: []int{64}, gateway: "process",
			goals: map[int]benchGoal{64: {cpu: 1.6}}},
		{name: "process-json-20K", reply: "JSON", body: benchBody("", "", 20<<10), end: "}", conns: []int{16},
			gateway: "process", goals: map[int]benchGoal{16: {cpu: 2.2}}},
		{name: "process-stream", reply: "100 deltas", body: benchBody(streamed, "", 0), end: benchDone, conns: []int{64},
			gateway: "process"},
	}
}

// benchBody is a conversation of about so many bytes, and of one message at least, that ends with the wish.
func benchBody(more, wish string, length int) string {
	said := strings.Repeat(benchTurn, 11)
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":"service/auto","max_tokens":400%s,`+
		`"messages":[{"role":"system","content":"You answer briefly."},`, more)
	for b.Len()+len(said) < length {
		fmt.Fprintf(&b, `{"role":"user","content":"%s"},{"role":"assistant","content":"I see.\n"},`, said)
	}
	fmt.Fprintf(&b, `{"role":"user","content":"%s%s"}]}`, said, wish)
	return b.String()
}

// benchAgent is a conversation of a coding agent: tools with their schemas, calls, and files as what they gave back.
func benchAgent(length int) string {
	var b strings.Builder
	b.WriteString(`{"model":"service/auto","max_tokens":400,"tools":[`)
	for i := range 12 {
		fmt.Fprintf(&b,
			`%s{"type":"function","function":{"name":"tool_%d","description":"Reads, writes or searches files of `+
				`the project and says what it has found.","parameters":{"type":"object","properties":{"path":{"type":"string",`+
				`"description":"The file, relative to the project."},"offset":{"type":"integer"},"limit":{"type":"integer"}},`+
				`"required":["path"]}}}`, strings.Repeat(",", min(i, 1)), i)
	}
	b.WriteString(`],"messages":[{"role":"system","content":"You are a careful programmer."},` +
		`{"role":"user","content":"Find out why the keeper's book loses a night, and mend it."}`)
	file := strings.Repeat(`\tfor _, night := range book.Nights {\n\t\tif night.Ship == \"\" {\n\t\t\treturn `+
		`fmt.Errorf(\"reading %q: %w\", night.Name, err)\n\t\t}\n\t}\n`, 24)
	for i := 0; b.Len()+len(file) < length; i++ {
		fmt.Fprintf(&b, `,{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{`+
			`"name":"tool_%d","arguments":"{\"path\":\"internal/book/night_%d.go\",\"offset\":0}"}}]},`+
			`{"role":"tool","tool_call_id":"call_%d","content":"%s"}`, i, i%12, i, i, file)
	}
	b.WriteString(`]}`)
	return b.String()
}

// The routes cost next to nothing, so that the trial credits last for any number of requests.
const benchBase = `
gateway {
  drain_timeout = "1s"
}

plan "trial" {
  requests_per_minute {
    key     = 0
    account = 0
    address = 0
  }
  concurrent_requests = 0
  max_streams         = 0
}

provider "upstream" {
  plugin = "openai"
  carry  = "CARRY"
  config {
    base_url = "UPSTREAM/v1"
  }
}

`

const benchRoute = `
route "route-%[1]d" {
  provider       = "upstream"
  model          = "bench"
  context_window = 1000000
  max_output     = 4096
  quality        = %.1[2]f
  offers         = ["tools"]
  price {
    input  = %.4[3]f
    output = %.4[3]f
  }
}
`

// benchGateways are what is measured: upstream calls made by the gateway itself and by the provider's process, over
// one route, and by the gateway itself to whichever of three routes it chooses.
var benchGateways = map[string]string{
	"host":    benchHCL("host", 1),
	"process": benchHCL("process", 1),
	"routes":  benchHCL("host", 3),
}

// benchHCL is a configuration that has yet to be told its upstream.
func benchHCL(carry string, routes int) string {
	hcl := strings.Replace(benchBase, "CARRY", carry, 1)
	for i := range routes {
		hcl += fmt.Sprintf(benchRoute, i, 0.5+0.1*float64(i), 0.0001*float64(1+i))
	}
	return hcl
}

// BenchmarkGateway measures the CPU time (user and system, by the operating system's accounting) that the whole
// gateway, host and plugin process, takes for a request: authenticated, held, routed, translated, sent upstream,
// delivered, charged durably and logged. Beside it stands what the same binary takes as a plain `reverse_proxy` to the
// same upstream. The two take turns, so that a busy machine is busy for both, and each round has a ratio of its own:
// the median is what to look at, the others are the spread. The load generator (this process) and the upstream (one of
// its own) are not counted.
func BenchmarkGateway(b *testing.B) {
	m := newBenchMachines(b)
	var rows []benchRow
	for _, kind := range benchKinds() {
		for _, conns := range kind.conns {
			row := benchRow{kind: kind, conns: conns}
			b.Run(fmt.Sprintf("%s/conns=%d", kind.name, conns), func(b *testing.B) {
				gateway := cmp.Or(kind.gateway, "host")
				row.gateway = newSide(b, m.gateways[gateway], kind, conns, m.keys[gateway])
				plain := kind
				plain.end = cmp.Or(kind.proxyEnd, kind.end)
				row.proxy = newSide(b, m.proxy, plain, conns, "")
				row.disk = newBenchDisk(b)
				b.ResetTimer()
				row.measure(b)
			})
			if row.gateway != nil && row.gateway.requests > 0 {
				rows = append(rows, row)
			}
		}
	}
	printBench(rows)
}

// benchMachines are the servers that are compared.
type benchMachines struct {
	upstream string
	proxy    *benchServer
	gateways map[string]*benchServer
	keys     map[string]string
}

func newBenchMachines(b *testing.B) *benchMachines {
	b.Helper()
	m := &benchMachines{upstream: startUpstream(b), gateways: map[string]*benchServer{}, keys: map[string]string{}}
	m.proxy = benchProxy(b, m.upstream)
	for name, hcl := range benchGateways {
		m.gateways[name], m.keys[name] = benchGateway(b, strings.Replace(hcl, "UPSTREAM", m.upstream, 1))
	}
	return m
}

// A row of the table: both sides after their last run.
type benchRow struct {
	kind           benchKind
	conns          int
	gateway, proxy *benchSide
	disk           *benchDisk
	ratios         []float64 // of each round, sorted
	allocations    float64   // of the host, for a request
}

// benchRounds is how often the two sides change over within a run; each round also syncs the disk so many times.
const (
	benchRounds = 7
	benchSyncs  = 20
)

// measure sends b.N requests to each side, and for each connection what the kind asks for at least.
func (r *benchRow) measure(b *testing.B) {
	r.ratios = nil
	before := r.gateway.server.mallocs(b)
	for round := range benchRounds {
		n := b.N*(round+1)/benchRounds - b.N*round/benchRounds
		n = max(n, r.conns*r.kind.least)
		if n == 0 {
			continue
		}
		ours, theirs := r.gateway.send(b, n), r.proxy.send(b, n)
		r.disk.sync(b, benchSyncs)
		if theirs > 0 {
			r.ratios = append(r.ratios, float64(ours)/float64(theirs))
		}
	}
	b.StopTimer()
	r.allocations = float64(r.gateway.server.mallocs(b)-before) / float64(r.gateway.requests)
	slices.Sort(r.ratios)
	b.ReportMetric(0, "ns/op") // of both together: it says nothing
	b.ReportMetric(r.cpu(r.gateway), "cpu-us/op")
	b.ReportMetric(r.cpu(r.proxy), "proxy-cpu-us/op")
	b.ReportMetric(median(r.ratios), "ratio")
	b.ReportMetric(r.allocations, "allocs/op")
	b.ReportMetric(r.gateway.rate(), "req/s")
}

// cpu is a side's CPU time for a request, or for a part of it, in microseconds.
func (r *benchRow) cpu(s *benchSide) float64 { return s.cpuPerRequest() / float64(max(r.kind.per, 1)) }

func median(sorted []float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
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
	for _, c := range s.clients {
		c.took, c.first = nil, nil
	}
	return s
}

// send sends n requests and returns the CPU time that they took.
func (s *benchSide) send(b *testing.B, n int) time.Duration {
	before, began := s.server.cpu(b), time.Now()
	require.NoError(b, drive(s.clients, n))
	s.wall += time.Since(began)
	took := s.server.cpu(b) - before
	s.cpu += took
	s.requests += n
	return took
}

func (s *benchSide) cpuPerRequest() float64 {
	return float64(s.cpu.Microseconds()) / float64(s.requests)
}

func (s *benchSide) rate() float64 { return float64(s.requests) / s.wall.Seconds() }

// times are the percentiles of a side's requests, in milliseconds: of the whole, and of the body's beginning.
func (s *benchSide) times() (p50, p99, first float64) {
	var took, begun []time.Duration
	for _, c := range s.clients {
		took, begun = append(took, c.took...), append(begun, c.first...)
	}
	slices.Sort(took)
	slices.Sort(begun)
	return at(took, 50), at(took, 99), at(begun, 50)
}

func printBench(rows []benchRow) {
	if len(rows) == 0 {
		return
	}
	fmt.Printf(benchCPUHead, benchRounds)
	for _, r := range rows {
		fmt.Printf("  %-18s %-16s %11d   %7.1f   %13.1f   %5.2f   %6.2f   %7.2f   %8s   %11.0f   %8d\n", r.kind.name,
			r.kind.reply, r.conns, r.cpu(r.gateway), r.cpu(r.proxy), median(r.ratios), slices.Min(r.ratios),
			slices.Max(r.ratios), goal(r.kind.goals[r.conns].cpu), r.allocations, r.gateway.requests)
	}
	fmt.Print(benchTimeHead)
	for _, r := range rows {
		slices.Sort(r.disk.times)
		sync := at(r.disk.times, 50)
		p50, p99, first := r.gateway.times()
		proxy50, proxy99, proxyFirst := r.proxy.times()
		goals := r.kind.goals[r.conns]
		within := 0.0
		if goals.p50 > 0 {
			within = goals.p50*proxy50 + 1.5*sync
		}
		fmt.Printf("  %-18s %5d   %7.0f %7.0f %5.2f   %7.2f %7.2f %5.2f %7s   %7.2f %7.2f %5.2f   ", r.kind.name, r.conns,
			r.gateway.rate(), r.proxy.rate(), r.gateway.rate()/r.proxy.rate(),
			p50, proxy50, p50/proxy50, goal(within), p99, proxy99, p99/proxy99)
		fmt.Printf("%7.2f %7.2f %5.2f %7s   %5.2f\n", first, proxyFirst, first/proxyFirst, goal(goals.first), sync)
	}
	fmt.Println()
}

func goal(value float64) string {
	if value == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", value)
}

const benchCPUHead = `
CPU time for one request, in microseconds, user and system, all processes of the server together; of %d rounds the
median ratio, the lowest and the highest. reverse_proxy is this same binary as a plain proxy to the same upstream: it
neither looks, nor translates, nor charges. In rows that begin with "process" the provider's process makes the upstream
calls, in the others the gateway itself; in those that begin with "routes" it has three routes to choose from,
otherwise one. Allocations are the gateway's for one request.

  request            reply            connections   gateway   reverse_proxy   ratio   lowest   highest   to reach   ` +
	`allocations   requests
`

const benchTimeHead = `
Times of the same requests, in milliseconds: the gateway's, the proxy's, and the ratio. "first" is when the reply's
body begins; a paced stream's p50 is its pace. The p50 to reach is 1.5 times the proxy's and 1.5 times what an
fdatasync of 4 KiB took in the same rounds (p50), which is the last column.

                             requests a second                 p50                              p99               ` +
	`         first
  request            conns   gateway   proxy ratio   gateway   proxy ratio   reach   gateway   proxy ratio   ` +
	`gateway   proxy ratio   reach    sync
`
