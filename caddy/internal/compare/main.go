// Command compare runs a public load generator, somebody else's, against Fareway, the same program as a plain Caddy
// reverse_proxy, the model service itself, and any other gateway, in turns, and prints one table. `make compare`
// builds what it needs.
//
//	go run ./caddy/internal/compare -tools DIR -fareway bin/fareway [-peer 'NAME URL [MODEL [KEY [PID]]]']...
//
// DIR holds loadgen and mock, built from github.com/ENTERPILOT/ai-gateway-reproducible-benchmark, remote/bench-tools.
// A peer is a gateway that runs already, whose upstream is the mock, which listens on -mock-port. With a process id
// its CPU time and memory are printed, with those of its children.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

type options struct {
	tools, fareway string
	port           int
	rounds         int
	duration       time.Duration
	conns          []int
	peers          []target
}

func main() {
	o := options{conns: []int{1, 10, 64, 256}}
	flag.StringVar(&o.tools, "tools", "", "the folder of loadgen and mock")
	flag.StringVar(&o.fareway, "fareway", "bin/fareway", "the program of the gateway and of the plain proxy")
	flag.IntVar(&o.port, "mock-port", 9999, "where the model service listens")
	flag.IntVar(&o.rounds, "rounds", 3, "how often everybody takes a turn; the median is printed")
	flag.DurationVar(&o.duration, "duration", 5*time.Second, "how long a turn is")
	flag.Func("conns", "connections, `1,10,...`", func(s string) (err error) {
		o.conns = nil
		for n := range strings.SplitSeq(s, ",") {
			c, err1 := strconv.Atoi(n)
			o.conns, err = append(o.conns, c), errors.Join(err, err1)
		}
		return err
	})
	flag.Func("peer", "a gateway that runs: `'NAME URL [MODEL [KEY [PID]]]'`", func(s string) error {
		t, err := parsePeer(s)
		o.peers = append(o.peers, t)
		return err
	})
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := compare(ctx, os.Stdout, o); err != nil {
		slog.Error(err.Error())
		os.Exit(1)
	}
}

// target is a server that gets the load.
type target struct {
	name, url, model, key string
	pid                   int // 0 where nobody knows
}

func parsePeer(s string) (target, error) {
	f := strings.Fields(s)
	if len(f) < 2 || len(f) > 5 {
		return target{}, fmt.Errorf("%q is not NAME URL [MODEL [KEY [PID]]]", s)
	}
	f = append(f, make([]string, 5-len(f))...)
	t := target{name: f[0], url: strings.TrimSuffix(f[1], "/"), model: cmp.Or(f[2], "gpt-4o-mini"), key: f[3]}
	var err error
	if f[4] != "" {
		t.pid, err = strconv.Atoi(f[4])
	}
	return t, err
}

// turn is one run of the load generator.
type turn struct {
	rps, p50, p99, first float64
	cpu                  float64 // us a request; 0 where nobody knows
	memory               int64   // PSS in KiB at the end of it, likewise
}

func compare(ctx context.Context, out io.Writer, o options) (err error) {
	dir, err := os.MkdirTemp("", "compare")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	targets, stop, err := start(ctx, dir, o)
	defer stop()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "reply\tconnections\t\trequests/s\tp50 ms\tp99 ms\tfirst ms\tCPU us\tratio\tmemory MB\t")
	for _, stream := range []bool{false, true} {
		for _, conns := range o.conns {
			turns := make([][]turn, len(targets))
			for range o.rounds {
				for i, t := range targets {
					got, err := t.run(ctx, o, conns, stream)
					if err != nil {
						return fmt.Errorf("%s, %d connections: %w", t.name, conns, err)
					}
					turns[i] = append(turns[i], got)
				}
			}
			printRows(table, targets, turns, conns, stream)
		}
	}
	return table.Flush()
}

func printRows(table io.Writer, targets []target, turns [][]turn, conns int, stream bool) {
	reply := map[bool]string{false: "JSON", true: "stream"}[stream]
	var proxy float64 // CPU
	for i, t := range targets {
		median := func(of func(turn) float64) float64 {
			var all []float64
			for _, one := range turns[i] {
				all = append(all, of(one))
			}
			slices.Sort(all)
			return all[len(all)/2]
		}
		cpu := median(func(t turn) float64 { return t.cpu })
		if t.name == proxyName {
			proxy = cpu
		}
		dash := func(format string, value float64) string {
			if value == 0 {
				return "-"
			}
			return fmt.Sprintf(format, value)
		}
		ratio := 0.0
		if proxy > 0 {
			ratio = cpu / proxy
		}
		first := median(func(t turn) float64 { return t.first })
		if !stream {
			first = 0
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%.0f\t%.2f\t%.2f\t%s\t%s\t%s\t%s\t\n", reply, conns, t.name,
			median(func(t turn) float64 { return t.rps }), median(func(t turn) float64 { return t.p50 }),
			median(func(t turn) float64 { return t.p99 }), dash("%.2f", first), dash("%.0f", cpu), dash("%.2f", ratio),
			dash("%.0f", median(func(t turn) float64 { return float64(t.memory) / 1024 })))
	}
}

// run is one turn.
func (t target) run(ctx context.Context, o options, conns int, stream bool) (turn, error) {
	before, err := t.cpu()
	if err != nil {
		return turn{}, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(o.tools, "loadgen"), "-url", t.url+"/v1/chat/completions",
		"-model", t.model, "-auth", t.key, "-c", strconv.Itoa(conns), "-duration", o.duration.String(),
		"-stream="+strconv.FormatBool(stream), "-json", "-")
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return turn{}, fmt.Errorf("the load generator: %w", err)
	}
	var said struct {
		RPS     float64        `json:"rps"`
		OK      int            `json:"ok"`
		Failed  int            `json:"failed"`
		Errors  map[string]int `json:"errors"`
		Latency struct {
			P50 float64 `json:"p50_ms"`
			P99 float64 `json:"p99_ms"`
		} `json:"total_latency"`
		First struct {
			P50 float64 `json:"p50_ms"`
		} `json:"ttft"`
	}
	if err := json.Unmarshal(b, &said); err != nil {
		return turn{}, fmt.Errorf("what the load generator says: %w", err)
	}
	if said.Failed > 0 || said.OK == 0 {
		return turn{}, fmt.Errorf("%d requests failed, %d did not: %v", said.Failed, said.OK, said.Errors)
	}
	after, err := t.cpu()
	if err != nil {
		return turn{}, err
	}
	memory, err := t.memory()
	return turn{
		rps: said.RPS, p50: said.Latency.P50, p99: said.Latency.P99, first: said.First.P50, memory: memory,
		cpu: float64((after - before).Microseconds()) / float64(said.OK),
	}, err
}

const proxyName = "reverse_proxy"

// start starts the model service, the plain proxy and the gateway; stop ends what was started.
func start(ctx context.Context, dir string, o options) (all []target, stop func(), err error) {
	var cmds []*exec.Cmd
	stop = func() {
		for _, c := range slices.Backward(cmds) {
			_ = c.Process.Signal(syscall.SIGTERM) // it may have ended by itself
			_ = c.Wait()
		}
	}
	launch := func(program string, env []string, args ...string) (int, error) {
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), append(env, "HOME="+filepath.Join(dir, "home"))...)
		log, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.log", len(cmds))))
		if err != nil {
			return 0, err
		}
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		cmds = append(cmds, cmd)
		return cmd.Process.Pid, nil
	}
	program, err := filepath.Abs(o.fareway)
	if err != nil {
		return nil, stop, err
	}
	mock, err := filepath.Abs(filepath.Join(o.tools, "mock"))
	if err != nil {
		return nil, stop, err
	}
	url := func(n int) string { return fmt.Sprintf("http://127.0.0.1:%d", o.port+n) }
	for name, text := range map[string]string{
		"Caddyfile":   fmt.Sprintf(caddyfile, dir, url(1), url(0)),
		"gateway.hcl": fmt.Sprintf(gatewayHCL, url(0)),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, stop, err
		}
	}
	if _, err = launch(mock, []string{"MOCK_PORT=" + strconv.Itoa(o.port)}); err != nil {
		return nil, stop, err
	}
	proxy, err := launch(program, nil, "run", "--config", "Caddyfile")
	if err != nil {
		return nil, stop, err
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, stop, err
	}
	if err := os.Rename(filepath.Join(dir, "gateway.hcl"), filepath.Join(data, "gateway.hcl")); err != nil {
		return nil, stop, err
	}
	gateway, err := launch(program, nil, "gateway", "up", "--no-selftest", "--data", data, "--listen",
		strings.TrimPrefix(url(2), "http://"))
	if err != nil {
		return nil, stop, err
	}
	for n := range 3 {
		if err := await(ctx, url(n)); err != nil {
			return nil, stop, err
		}
	}
	key, err := os.ReadFile(filepath.Join(data, "trial.key"))
	all = append([]target{
		{name: "direct", url: url(0), model: "bench", pid: cmds[0].Process.Pid},
		{name: proxyName, url: url(1), model: "bench", pid: proxy},
		{name: "fareway", url: url(2), model: "service/auto", key: strings.TrimSpace(string(key)), pid: gateway},
	}, o.peers...)
	return all, stop, err
}

// await waits until a server answers, whatever it says.
func await(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for tick := time.Tick(50 * time.Millisecond); ; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			return resp.Body.Close()
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", url, err)
		}
	}
}

const caddyfile = `{
	admin unix//%[1]s/admin.sock
	auto_https off
	log {
		level WARN
		exclude http.log.access
	}
	log access {
		include http.log.access
		output file %[1]s/access.log
		format json
	}
}

%[2]s {
	log
	reverse_proxy %[3]s {
		flush_interval -1
		transport http {
			keepalive_idle_conns_per_host 256
		}
	}
}
`

const gatewayHCL = `gateway {
  drain_timeout = "5s"
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
  config {
    base_url = "%s/v1"
  }
}

route "bench" {
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
