package main_test

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// abuseLasts is how long each attack goes on, and abuseEvery how often somebody else asks meanwhile.
const (
	abuseLasts = 15 * time.Second
	abuseEvery = 50 * time.Millisecond
)

// abuse is what somebody does to a gateway.
type abuse struct {
	name    string
	clients int // that do it at a time, each over connections of its own
	of      int // addresses that they share
	attack  func(conn net.Conn, key string) error
	proto   string // "" for http/1.1
	streams int    // that run before it counts
}

// BenchmarkAbuse prints what a gateway with the limits of examples/public has in memory at most, and how much CPU it
// takes, while somebody attacks it, and how long an ordinary client's requests take meanwhile, half of them over new
// connections. Attackers, client and upstream use the same cores. The plan has no limits: a key that had some would be
// refused after so many requests a minute. Run it with -benchtime 1x.
func BenchmarkAbuse(b *testing.B) {
	var table strings.Builder
	fmt.Fprintf(&table, "\n%s of each, by attackers at the lowest priority; memory (PSS) at most; an ordinary request is "+
		"to be\nanswered within 1 s; what attackers were answered, and connections of theirs that were refused\n\n"+
		"  %-42s %6s %6s %7s %6s %8s %7s %12s %8s\n", abuseLasts, "", "MB", "cores", "p50 ms", "p99", "slowest", "failed",
		"answered", "refused")
	for _, a := range abuses() {
		var text string
		b.Run(strings.ReplaceAll(a.name, " ", "-"), func(b *testing.B) {
			for range b.N {
				text = a.measure(b)
			}
			b.ReportMetric(0, "ns/op")
		})
		table.WriteString(text)
	}
	fmt.Println(table.String())
}

func abuses() []abuse {
	trickle := func(first string) func(conn net.Conn, key string) error {
		return func(conn net.Conn, key string) error {
			if _, err := io.WriteString(conn, strings.ReplaceAll(first, "KEY", key)); err != nil {
				return err
			}
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for range tick.C {
				if _, err := io.WriteString(conn, "x"); err != nil {
					return err
				}
			}
			return nil
		}
	}
	flood := func(path, key string, header, body int) func(conn net.Conn, own string) error {
		return func(conn net.Conn, own string) error {
			text := head("POST", path, strings.ReplaceAll(key, "KEY", own), "X-Flood: "+strings.Repeat("x", header),
				"Content-Type: application/json", length(body)) + strings.Repeat("[", body)
			replies := bufio.NewReader(conn)
			for {
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					_, _ = io.WriteString(conn, text) // the reply says how it went
				}()
				resp, err := http.ReadResponse(replies, nil)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
				}
				if err != nil || resp.Close {
					_ = conn.Close()
					<-sent
					return err
				}
				<-sent
			}
		}
	}
	reset := func(key string) func(conn net.Conn, own string) error {
		return func(conn net.Conn, own string) error {
			go func() { _, _ = io.Copy(io.Discard, conn) }() // what the server says of it
			if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
				return err
			}
			key := strings.ReplaceAll(key, "KEY", own)
			return resetStreams(conn, "localhost", key, math.MaxInt32, func(int) {})
		}
	}
	const chat = "/v1/chat/completions"
	return []abuse{
		{name: "nobody", clients: 0, of: 1},
		{name: "2,000 connections that say nothing", clients: 2_000, of: 8, attack: trickle("")},
		{name: "2,000 connections of one address", clients: 2_000, of: 1, attack: trickle("")},
		{name: "2,000 headers, a byte a second", clients: 2_000, of: 8, attack: trickle("GET /v1/models HTTP/1.1\r\nX-A: ")},
		{name: "1,000 bodies, a byte a second", clients: 1_000, of: 8,
			attack: trickle(head("POST", chat, "KEY", length(1<<20)) + "[")},
		{name: "headers of 60 KB", clients: 32, of: 8, attack: flood("/v1/models", "KEY", 60<<10, 0)},
		{name: "headers of 2 MB", clients: 32, of: 8, attack: flood("/v1/models", "KEY", 2<<20, 0)},
		{name: "bodies of 8 MB, wrong key", clients: 32, of: 8, attack: flood(chat, "fw-wrong", 0, 8<<20)},
		{name: "bodies of 8 MB, right key", clients: 32, of: 8, attack: flood(chat, "KEY", 0, 8<<20)},
		{name: "bodies over the limit", clients: 32, of: 8, attack: flood(chat, "KEY", 0, 40<<20)},
		{name: "new connections, 16 at a time", clients: 16, of: 8,
			attack: func(net.Conn, string) error { return nil }},
		{name: "rapid reset, wrong key", clients: 8, of: 8, proto: "h2", attack: reset("fw-wrong")},
		{name: "rapid reset, right key", clients: 8, of: 8, proto: "h2", attack: reset("KEY")},
		{name: "10,000 streams that wait for their service", clients: 100, of: 100, proto: "h2", attack: idleStreams(100),
			streams: 10_000},
	}
}

// idleStreams begins so many streams over a connection of HTTP/2, each up to its first delta.
func idleStreams(n int) func(conn net.Conn, key string) error {
	return func(conn net.Conn, key string) error {
		transport := &http.Transport{ForceAttemptHTTP2: true,
			DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
		over, err := transport.NewClientConn(context.Background(), "https", "localhost:443")
		if err != nil {
			return err
		}
		var streams sync.WaitGroup
		errs := make(chan error, n)
		for range n {
			streams.Go(func() {
				body := strings.NewReader(benchBody(`,"stream":true`, benchIdle, 0))
				req, err := http.NewRequestWithContext(context.Background(), http.MethodPost,
					"https://localhost/v1/chat/completions", body)
				if err != nil {
					errs <- err
					return
				}
				req.Header.Set("Authorization", "Bearer "+key)
				resp, err := over.RoundTrip(req)
				if err != nil {
					errs <- err
					return
				}
				defer resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					errs <- errors.New(resp.Status)
				}
				_, _ = io.Copy(io.Discard, resp.Body) // it has no end
			})
		}
		streams.Wait()
		close(errs)
		return <-errs
	}
}

// measure has the attackers attack a gateway of its own, and says what comes of it.
func (a *abuse) measure(b *testing.B) string {
	upstream := startUpstream(b)
	hcl := strings.Replace(benchGateways["host"], "UPSTREAM", upstream, 1)
	hcl = strings.Replace(hcl, "gateway {", "gateway {\n  max_streams = 11000", 1)
	g := startGateway(b, files{"gateway.hcl": hcl, "Caddyfile": abusedSite})
	server := &benchServer{url: g.URL, pids: []int{g.cmd.Process.Pid}, admin: g.admin}
	for _, c := range g.children(b) {
		server.pids = append(server.pids, c.pid)
	}
	site, err := url.Parse(g.URL)
	require.NoError(b, err)
	s := abused{site.Port(), g.Key}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	// Elsewhere an attacker has cores of its own; here it takes what the others leave of them.
	program, err := os.Executable()
	require.NoError(b, err)
	attacker := exec.CommandContext(ctx, "nice", "-n", "19", program)
	attacker.Env = append(os.Environ(), attackVariable+"="+a.name, attackVariable+"_PORT="+s.port,
		attackVariable+"_KEY="+s.key)
	startBench(b, attacker)
	if a.streams > 0 {
		eventually(b, func() (bool, string) {
			m := g.metrics(b)
			return m["fareway_running_requests"] >= float64(a.streams), fmt.Sprint(m["fareway_running_requests"], " run")
		})
	}
	before := g.requestsAnswered(b)
	began, cpu := time.Now(), server.cpu(b)
	ctx, cancel = context.WithTimeout(b.Context(), abuseLasts)
	defer cancel()
	var most float64
	var took []time.Duration
	failed := 0
	kept, fresh := s.client(true), s.client(false)
	tick := time.NewTicker(abuseEvery)
	defer tick.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		<-tick.C
		client := kept
		if i%2 == 1 {
			client = fresh
		}
		at := time.Now()
		if err := askOrdinary(client, s); err != nil {
			failed++
			if failed < 4 {
				b.Log(err)
			}
		}
		took = append(took, time.Since(at))
		if i%10 == 0 {
			most = max(most, server.resident(b))
		}
	}
	cores := (server.cpu(b) - cpu).Seconds() / time.Since(began).Seconds()
	m := g.metrics(b)
	answered := g.requestsAnswered(b) - before - float64(len(took)-failed)
	refused := m[`fareway_connections_refused_total{of="address"}`] + m[`fareway_connections_refused_total{of="all"}`]
	slices.Sort(took)
	b.ReportMetric(most, "MB")
	b.ReportMetric(cores, "cores")
	b.ReportMetric(at(took, 100), "slowest-ms")
	return fmt.Sprintf("  %-42s %6.0f %6.2f %7.1f %6.0f %8.0f %7d %12.0f %8.0f\n", a.name, most, cores, at(took, 50),
		at(took, 99), at(took, 100), failed, answered, refused)
}

// requestsAnswered is how many there were, refused ones among them.
func (g *gateway) requestsAnswered(b *testing.B) (n float64) {
	b.Helper()
	for name, value := range g.metrics(b) {
		if strings.HasPrefix(name, "fareway_requests_total{") {
			n += value
		}
	}
	return n
}

// attackVariable has the name of an abuse in a process that only attacks, until it is killed.
const attackVariable = "FAREWAY_BENCH_ATTACK"

func init() {
	name := os.Getenv(attackVariable)
	if name == "" {
		return
	}
	i := slices.IndexFunc(abuses(), func(a abuse) bool { return a.name == name })
	abuses()[i].attackAll(abused{os.Getenv(attackVariable + "_PORT"), os.Getenv(attackVariable + "_KEY")})
	os.Exit(0) // nobody attacks
}

func (a *abuse) attackAll(s abused) {
	var attackers sync.WaitGroup
	for i := range a.clients {
		attackers.Go(func() {
			for {
				if a.attackOnce(s, fmt.Sprintf("192.0.2.%d", 1+i%a.of)) != nil {
					<-time.After(10 * time.Millisecond) // it was refused: an attacker tries again
				}
			}
		})
	}
	attackers.Wait()
}

// attackOnce attacks over one connection.
func (a *abuse) attackOnce(s abused, from string) error {
	conn, err := s.dial(context.Background(), from, a.proto)
	if err != nil {
		return err
	}
	return errors.Join(a.attack(conn, s.key), conn.Close())
}

// abused is a gateway that is attacked: its port, and a key.
type abused struct{ port, key string }

// dial makes a connection over TLS that says that it comes from an address.
func (s abused) dial(ctx context.Context, from, proto string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:"+s.port)
	if err != nil {
		return nil, err
	}
	over := tls.Client(conn, &tls.Config{ServerName: "localhost", NextProtos: []string{cmp.Or(proto, "http/1.1")},
		InsecureSkipVerify: true}) //nolint:gosec // its certificate is its own
	_, err = fmt.Fprintf(conn, "PROXY TCP4 %s 127.0.0.1 4711 443\r\n", from)
	if err == nil {
		err = over.HandshakeContext(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return over, nil
}

// client is an ordinary one at an address of its own, which keeps its connections or not.
func (s abused) client(keep bool) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx, "198.51.100.1", "") }
	return &http.Client{Transport: &http.Transport{DialTLSContext: dial, DisableKeepAlives: !keep}}
}

func askOrdinary(client *http.Client, s abused) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	body := strings.NewReader(benchBody("", "", 0))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://localhost/v1/chat/completions", body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("got %s: %s", resp.Status, text)
	}
	return errors.Join(err, resp.Body.Close())
}

// abusedSite has the limits of examples/public.
var abusedSite = func() string {
	limits := wrappedSite("")
	limits = strings.Replace(limits, "read_header 300ms", "read_header 10s\n\t\t\tidle 2m", 1)
	return strings.Replace(limits, "servers {", "servers {\n\t\tmax_header_size 64KB", 1)
}()
