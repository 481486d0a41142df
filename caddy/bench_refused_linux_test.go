package main_test

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkGatewayRefused measures the CPU time that a request takes whose caller is refused: without a key, with one
// that nobody has, or over the failures that its address may have in a minute, when no key is looked at any more.
// Beside it stands what the same binary takes to answer such a request with Caddy's `respond`, and an access log: the
// difference is what a failed authentication costs here, and is to stay below 30 microseconds.
func BenchmarkGatewayRefused(b *testing.B) {
	const conns = 16
	upstream := startUpstream(b)
	server := func(failures int) (*benchServer, string) {
		hcl := fmt.Sprintf("pre_auth {\n  failures_per_minute = %d\n}\n", failures) + benchGateways["host"]
		return benchGateway(b, strings.Replace(hcl, "UPSTREAM", upstream, 1))
	}
	plain := benchRespond(b)
	endless, _ := server(0)
	limited, others := server(1) // a well-formed key, and of another gateway: the ledger has to be asked
	var table strings.Builder
	fmt.Fprintf(&table, "\nCPU time of a refused request, in microseconds, %d connections; the difference is to stay "+
		"below 30\n\n  %-12s %8s   %8s   %10s   %7s\n", conns, "", "gateway", "respond", "difference", "req/s")
	for _, refused := range []struct {
		name, key string
		server    *benchServer
	}{
		{"no key", "", endless},
		{"mistyped key", others + "x", endless},
		{"unknown key", others, endless},
		{"over limit", others + "x", limited}, // but for one in a minute
	} {
		var text string // of the last run
		b.Run(strings.ReplaceAll(refused.name, " ", "-"), func(b *testing.B) {
			kind := benchKind{body: benchBody("", "", 0), end: "}", refused: true}
			row := benchRow{kind: kind, gateway: newSide(b, refused.server, kind, conns, refused.key)}
			row.proxy, row.disk = newSide(b, plain, kind, conns, refused.key), newBenchDisk(b)
			b.ResetTimer()
			row.measure(b)
			difference := row.cpu(row.gateway) - row.cpu(row.proxy)
			b.ReportMetric(difference, "more-us/op")
			text = fmt.Sprintf("  %-12s %8.1f   %8.1f   %10.1f   %7.0f\n", refused.name, row.cpu(row.gateway),
				row.cpu(row.proxy), difference, row.gateway.rate())
		})
		table.WriteString(text)
	}
	fmt.Println(table.String())
}
