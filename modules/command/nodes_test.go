package command

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/admin"
)

// TestPrintNodes: what an operator reads about nodes.
func TestPrintNodes(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	v := admin.Nodes{Nodes: []admin.Node{
		{Label: "web-1/ABCDEFGH", State: "lives", Self: true, Since: since, Lease: 11_400, Version: "v1", Data: "/data",
			ConfigHash: "0123456789abcdef", Holds: 12},
		{Label: "web-2/IJKLMNOP", State: "lapsed", Since: since, Lease: -31_000, Version: "v1", Data: "/data", Holds: 3,
			ConfigHash: "fedcba9876543210", Spooled: 40},
		{Label: "web-3/QRSTUVWX", State: "gone", Since: since, Lease: -90_000},
	}, Drift: []string{"they serve by different configurations: a on web-1, b on web-2"}}
	var out strings.Builder
	printNodes(&out, v)
	lines := strings.Split(out.String(), "\n")
	fields := func(line int) []string { return strings.Fields(lines[line]) }
	require.Equal(t, strings.Fields("NODE STATE LEASE RUNS SPOOL VERSION CONFIGURATION SINCE DATA"), fields(0))
	require.Equal(t, "web-1/ABCDEFGH (this one) lives 11s 12 0 v1 0123456789ab", strings.Join(fields(1)[:9], " "))
	require.Equal(t, "web-2/IJKLMNOP lapsed over for 31s 3 40 v1 fedcba987654", strings.Join(fields(2)[:9], " "))
	require.Equal(t, "web-3/QRSTUVWX gone - 0 0 - -", strings.Join(fields(3)[:7], " "))
	require.Contains(t, out.String(), "\nTHEY DIFFER: they serve by different configurations")
	require.Contains(t, out.String(), "`fareway gateway reload` each")
}

// TestNodesOfAFile: a gateway that has its ledger to itself says how several share one.
func TestNodesOfAFile(t *testing.T) {
	t.Parallel()
	data, _ := running(t)
	_, err := run(t, "nodes", "--data", data)
	require.ErrorContains(t, err, `has its ledger to itself, so there are no other nodes: several share one with store `+
		`"postgres"`)
}

// TestLedgerState: what `status` says of the server that keeps the ledger.
func TestLedgerState(t *testing.T) {
	t.Parallel()
	l := admin.LedgerServer{Version: "15.13", Address: "10.0.0.5:5432/fareway", Up: true, Standbys: "*"}
	require.Equal(t, "PostgreSQL 15.13, 10.0.0.5:5432/fareway; commits wait for a standby (*)", ledgerState(&l))
	l.Standbys = ""
	require.Equal(t, "PostgreSQL 15.13, 10.0.0.5:5432/fareway; commits wait for no standby", ledgerState(&l))
	l.StandbyRequired, l.Up, l.Reason = true, false, "connection refused"
	require.Contains(t, ledgerState(&l), "away since")
	require.Contains(t, ledgerState(&l), "refused; commits wait for NO STANDBY, so charged requests are refused")
	require.Contains(t, ledgerState(&admin.LedgerServer{Version: "15"}), "not reached yet")
}
