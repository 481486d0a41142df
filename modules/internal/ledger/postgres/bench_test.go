package postgres_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
	"github.com/fareway/fareway/plugins/llm"
)

// BenchmarkHoldSettle is a request's way through the ledger, a durable hold and a durable settlement, from one node
// and from three at once, over one hot account and over 1,000. The server syncs its commits. It reports pairs a
// second, the CPU time of a pair of this process, which is all nodes, and of the server's processes.
func BenchmarkHoldSettle(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		for _, accounts := range []int{1, 1000} {
			for _, callers := range []int{16, 512, 4096} {
				b.Run(fmt.Sprintf("nodes=%d/accounts=%d/callers=%d", nodes, accounts, callers), func(b *testing.B) {
					holdAndSettle(b, nodes, accounts, callers)
				})
			}
		}
	}
}

// bench is a server that syncs its commits, with nodes and customers.
type bench struct {
	server    *postgrestest.Server
	url       string
	nodes     []*postgres.Store
	customers []customer
}

func openBench(b *testing.B, nodes, accounts int) bench {
	ctx := context.Background()
	durable, err := postgrestest.Start("fsync = on", "full_page_writes = on", "shared_buffers = 256MB",
		"max_wal_size = 4GB")
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, durable.Stop()) })
	url := durable.CreateDatabase(b, "bench", "template1")
	stores := make([]*postgres.Store, nodes)
	for i := range stores {
		stores[i], err = postgres.Open(ctx, postgres.Options{
			Options: ledger.Options{Logger: slog.New(slog.DiscardHandler), WaitTimeout: time.Minute},
			URL:     url, BootID: fmt.Sprint("node-", i),
		})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, stores[i].Close()) })
	}
	price := config.Price{Input: 1, CacheRead: 1, CacheWrite: 1, Output: 1}
	version, err := stores[0].PriceVersion(ctx, "route", price, price)
	require.NoError(b, err)
	customers := make([]customer, accounts)
	made := errgroup.Group{}
	made.SetLimit(32)
	for i := range customers {
		made.Go(func() error {
			a, err := stores[0].CreateAccount(ctx, fmt.Sprint("account ", i), "")
			if err != nil {
				return err
			}
			k, err := stores[0].CreateKey(ctx, a.ID, "k", [32]byte{byte(i), byte(i >> 8), 1}, "", ledger.KeyChange{})
			if err != nil {
				return err
			}
			_, _, err = stores[0].AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: ledger.MaxTopUp})
			customers[i] = customer{stores[0], a.ID, k.ID, version}
			return err
		})
	}
	require.NoError(b, made.Wait())
	return bench{durable, url, stores, customers}
}

// holdOne holds for the n-th request on a node, and settleOne settles it.
func (s *bench) holdOne(ctx context.Context, n int64) error {
	id, c := benchID(n), s.customers[n*7919%int64(len(s.customers))]
	_, err := s.nodes[n%int64(len(s.nodes))].Hold(ctx, ledger.Hold{
		Request: id, Account: c.account, Key: c.key, Endpoint: "chat", Profile: "balanced", Microcents: 1_000_000,
		Attempt: ledger.Attempt{ID: ledger.AttemptID(id, 1), Route: "route", Provider: "provider", Model: "model",
			PriceVersion: c.version, Worst: 1_000_000},
	})
	return err
}

func (s *bench) settleOne(ctx context.Context, n int64) error {
	id := benchID(n)
	_, err := s.nodes[n%int64(len(s.nodes))].Settle(ctx, ledger.Settlement{Request: id, Status: 200, Reason: "ok",
		Results: []ledger.Result{{Attempt: ledger.AttemptID(id, 1), Outcome: ledger.Finished,
			Usage: &llm.Usage{Input: llm.Count(950), Output: llm.Count(700)}}}})
	return err
}

// runPairs has callers hold and settle n requests, the first of which is from, and returns how many a second.
func (s *bench) runPairs(b *testing.B, from, n int64, callers int) float64 {
	ctx, start := context.Background(), time.Now()
	var next atomic.Int64
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for i := next.Add(1); i <= n; i = next.Add(1) {
				err := s.holdOne(ctx, from+i)
				if err == nil {
					err = s.settleOne(ctx, from+i)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	return float64(n) / time.Since(start).Seconds()
}

func holdAndSettle(b *testing.B, nodes, accounts, callers int) {
	s := openBench(b, nodes, accounts)
	before, server := cpu(b), s.server.CPU()
	b.ReportAllocs()
	b.ResetTimer()
	rate := s.runPairs(b, 0, int64(b.N), callers)
	b.StopTimer()
	b.ReportMetric(rate, "pairs/s")
	b.ReportMetric((cpu(b)-before)*1e6/float64(b.N), "cpu-us/pair")
	b.ReportMetric((s.server.CPU()-server)*1e6/float64(b.N), "server-cpu-us/pair")
	r, err := s.nodes[0].Verify(context.Background())
	require.NoError(b, err)
	require.True(b, r.OK, r.Problem)
}

// BenchmarkHoldAtRate has requests come at a rate, whatever those before them take: 10,000 pairs a second over 1,000
// accounts from three nodes, half of what they are to reach. A hold's time counts from when its request was due. To
// reach: a p99 under 25 ms.
func BenchmarkHoldAtRate(b *testing.B) {
	for _, rate := range []int64{2_500, 5_000, 10_000} {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			ctx := context.Background()
			s := openBench(b, 3, 1000)
			s.runPairs(b, 1<<40, 2_000, 64) // plans, and what nodes remember
			took := make([]time.Duration, b.N)
			var running sync.WaitGroup
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			b.ResetTimer()
			start, sent := time.Now(), int64(0)
			for range tick.C {
				for ; sent < int64(b.N) && sent*int64(time.Second)/rate <= int64(time.Since(start)); sent++ {
					n, due := sent, start.Add(time.Duration(sent*int64(time.Second)/rate))
					running.Go(func() {
						err := s.holdOne(ctx, n)
						took[n] = time.Since(due)
						if err == nil {
							err = s.settleOne(ctx, n)
						}
						if err != nil {
							b.Error(err)
						}
					})
				}
				if sent == int64(b.N) {
					break
				}
			}
			running.Wait()
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
			for _, p := range []int{50, 99} {
				b.ReportMetric(float64(took[len(took)*p/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", p))
			}
		})
	}
}

// BenchmarkFilled compares an empty store with one that has FAREWAY_BENCH_REQUESTS requests of a year (10 million take
// some 10 GB): to reach, within 1.5 times.
func BenchmarkFilled(b *testing.B) {
	if b.N == 1 { // before the run that counts
		return
	}
	rows, _ := strconv.ParseInt(os.Getenv("FAREWAY_BENCH_REQUESTS"), 10, 64)
	s := openBench(b, 3, 1000)
	s.runPairs(b, 1<<40, 2_000, 64)
	n := int64(b.N)
	b.ResetTimer()
	run := func(what string, from int64) (rate float64) {
		before, server := cpu(b), s.server.CPU()
		rate = s.runPairs(b, from, n, 4096)
		b.ReportMetric(rate, what+"-pairs/s")
		b.ReportMetric((cpu(b)-before+s.server.CPU()-server)*1e6/float64(n), what+"-cpu-us/pair")
		return rate
	}
	empty := run("empty", 0)
	fill(b, s.url, rows)
	b.ReportMetric(empty/run("filled", n), "times")
}

// fill adds settled requests to a database, of accounts that there are not, at even distances over twelve months.
func fill(b *testing.B, url string, rows int64) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(b, err)
	defer conn.Close(ctx)
	exec := func(sql string, args ...any) {
		_, err := conn.Exec(ctx, sql, args...)
		require.NoError(b, err, sql)
	}
	exec(`SET synchronous_commit = off`)
	now := time.Now().UTC()
	first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	since := first.AddDate(0, -12, 0).UnixMilli()
	for i := -12; i < 0; i++ {
		from, until := first.AddDate(0, i, 0), first.AddDate(0, i+1, 0)
		for _, of := range []string{"requests", "attempts"} {
			exec(fmt.Sprintf(`CREATE TABLE %s_%s PARTITION OF %[1]s FOR VALUES FROM ('req_%012[3]x') TO ('req_%012[4]x')`, of,
				from.Format("2006_01"), from.UnixMilli(), until.UnixMilli()))
		}
	}
	const batch = 200_000
	ids := fmt.Sprintf(`(SELECT i, 'acc_fill' || i %% 5000 AS account, 'req_' || lpad(to_hex(%d + i * %d), 12, '0')
		|| md5(i::text)::char(20) AS request, (%[1]d + i * %[2]d) * 1000000 AS at
		FROM generate_series($1::bigint, $2::bigint) AS i)`, since, (first.UnixMilli()-since)/max(rows, 1))
	for i := int64(0); i < rows; i += batch {
		last := min(i+batch, rows) - 1
		exec(`INSERT INTO requests SELECT account, request, 'key', 'node', 'chat', 'balanced', 1000000, 200, 'ok', false,
			false, 0, 1650, 0, 0, 0, 0, false, at, at, i / 5000 + 1 FROM `+ids+` AS _`, i, last)
		exec(`INSERT INTO attempts SELECT account, request, 1, 'route', 'provider', 'model', 1, 'finished', 950, NULL, NULL,
			700, NULL, false, at, NULL, 1000000, NULL, NULL, '', false FROM `+ids+` AS _`, i, last)
		exec(`INSERT INTO entries SELECT account, i / 5000 + 1, 'charge', 'revenue', request, NULL, '', '', -1650, 0, 0, 0,
			sha256(request::bytea), 1000, 0, at, 4, sha256(request::bytea), sha256(account::bytea) FROM `+ids+` AS _`, i, last)
	}
	exec(`VACUUM (ANALYZE)`) // else the server does it while it is measured
	exec(`CHECKPOINT`)
}

var benchBegan = time.Now()

// benchID is an id as the gateway makes them, with a number instead of random bits, of which 16 come a millisecond.
func benchID(n int64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(benchBegan.UnixMilli()+n/16%(1<<32))<<16)
	binary.BigEndian.PutUint64(b[8:], uint64(n))
	return "req_" + hex.EncodeToString(b[:])
}

// cpu is the time that this process has used, in seconds.
func cpu(b testing.TB) float64 {
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
