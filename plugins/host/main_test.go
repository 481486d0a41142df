package host_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	plugin "github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/host/frozen1"
	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

// TestMain makes this test binary a plugin, or a host of one, when it is started as such.
func TestMain(m *testing.M) {
	if name, ok := strings.CutPrefix(filepath.Base(os.Args[0]), "fareway-provider-"); ok {
		pluginMain(name)
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "run-plugin" {
		pluginMain(os.Args[2])
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "grow" {
		grow(os.Args[2])
		fmt.Println("grown")
		forever()
	}
	if len(os.Args) > 1 && os.Args[1] == "run-host" {
		hostMain()
		return
	}
	os.Exit(m.Run())
}

// pluginMain is the main of a plugin that behaves as its name says.
func pluginMain(name string) {
	switch name {
	case "dies":
		fmt.Fprintln(os.Stderr, "cannot find\x1b[2J\r my libraries")
		os.Exit(3)
	case "tcp":
		fmt.Printf("1|%d|tcp|127.0.0.1:1|grpc|AAAA\n", wire.Version)
		forever()
	case "short":
		fmt.Printf("1|%d|unix|/tmp/x\n", wire.Version)
		forever()
	case "panics":
		panic("nothing works")
	case "prints":
		fmt.Println("hello, I am starting")
	case "silent":
		fmt.Fprintln(os.Stderr, "thinking about it")
		forever()
	case "incompatible":
		plugin.Serve(&plugin.ServeConfig{
			HandshakeConfig:  wire.Handshake(),
			VersionedPlugins: map[int]plugin.PluginSet{99: {wire.PluginName: incompatible{}}},
			GRPCServer:       plugin.DefaultGRPCServer,
		})
		return
	case "frozen1", "frozen1-carried":
		if err := frozen1.Main(name == "frozen1-carried"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	case "rogue":
		rogueMain()
		return
	case "logs":
		// go-plugin's own reader of logs panics on the first of these.
		fmt.Fprintln(os.Stderr, `{"@message": 1}`)
		fmt.Fprintln(os.Stderr, strings.Repeat("x", 1<<20))
		fmt.Fprintln(os.Stderr, `{"@level":"warn","@message":"well-formed","@timestamp":"2026-01-02T03:04:05.000000Z","a":1}`)
	}
	if name == "carrier" {
		provider.Serve(new(carrier))
		return
	}
	provider.Serve(&scripted{name: name})
}

// hostMain hosts a plugin until it is killed. It prints the plugin's process id.
func hostMain() {
	h := host.New(host.Options{Builtin: builtin, Logger: slog.New(slog.DiscardHandler)})
	p, err := h.Acquire(context.Background(), host.Spec{Name: "p", Source: host.Source{Plugin: "script"}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	events, err := talk(context.Background(), p, "pid")
	child, _ := talk(context.Background(), p, "start a child")
	fmt.Println(text(events), text(child), err)
	forever()
}

// confess prints a secret in every way.
func confess(key string) {
	fmt.Println("on stdout", key)
	fmt.Fprintln(os.Stderr, "on stderr", key)
	slog.Warn("logged "+key, "key", key, "headers", map[string]any{"authorization": []string{"Bearer " + key}}, key, 1)
	fmt.Fprintln(os.Stderr, "GET /v1?key="+url.QueryEscape(key))
	fmt.Fprintln(os.Stderr, "Basic "+base64.StdEncoding.EncodeToString([]byte(key)))
	fmt.Fprintf(os.Stderr, "%q\n", key)
	fmt.Fprintln(os.Stderr, strings.Repeat("x", 16<<10-len(key)/2)+key)
}

// forkBomb starts processes until that fails, at most 300, and tells how many.
func forkBomb() (n int) {
	for n < 300 && leaveChild(true) != 0 {
		n++
	}
	return n
}

// leaveDaemon starts a process as daemons do: in a session of its own, without an environment, and a child of nobody.
func leaveDaemon() string {
	out, err := exec.Command("env", "-i", "setsid", "sh", "-c", "sleep 1000 </dev/null >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(out))
}

// leaveChild starts a process, maybe in a session of its own, which outlives whoever started it.
func leaveChild(session bool) int {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := cmd.Start(); err != nil {
		return 0
	}
	return cmd.Process.Pid
}

// hoard is what grow has taken.
var hoard [][]byte

// grow takes memory until the process has as much as the script says, or starts a child that does.
func grow(script string) {
	var mebibytes int
	if _, err := fmt.Sscanf(script, "grow a child to %d MiB", &mebibytes); err == nil {
		cmd := exec.Command("/proc/self/exe", "grow", fmt.Sprintf("grow to %d MiB", mebibytes))
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = io.ReadFull(out, make([]byte, len("grown")))
		}
		if err != nil {
			panic(err)
		}
		return
	}
	_, _ = fmt.Sscanf(script, "grow to %d MiB", &mebibytes)
	for resident() < mebibytes<<20 {
		more := make([]byte, 1<<20)
		for i := 0; i < len(more); i += 4096 {
			more[i] = 1
		}
		hoard = append(hoard, more)
	}
}

// resident is how much memory this process has that is of no file, in bytes.
func resident() int {
	var size, pages, mapped int
	b, _ := os.ReadFile("/proc/self/statm")
	_, _ = fmt.Sscan(string(b), &size, &pages, &mapped)
	return (pages - mapped) * os.Getpagesize()
}

func forever() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR2)
	<-c
}

// incompatible is a plugin of a later version of the protocol.
type incompatible struct{ plugin.NetRPCUnsupportedPlugin }

func (incompatible) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error { return nil }

func (incompatible) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

// scripted is a provider that does what the last message says.
type scripted struct {
	name     string
	settings struct {
		Greeting string `hcl:"greeting,optional" doc:"What to say."`
		Key      string `hcl:"key,optional" secret:"true" doc:"A secret."`
	}

	mu      sync.Mutex
	checks  int           // of health
	sent    int64         // bytes of text that send has taken
	blocked chan struct{} // closed when send has blocked for a while, as it may do again
	halted  func()        // closes it
}

func (s *scripted) Settings() any { return &s.settings }

func (s *scripted) Start(context.Context) error {
	s.blocked = make(chan struct{})
	s.halted = sync.OnceFunc(func() { close(s.blocked) })
	switch s.name {
	case "hangs":
		forever()
	case "needs-folder":
		if _, err := os.Stat(s.settings.Greeting); err != nil {
			return err
		}
	case "refuses":
		return errors.New("setting greeting must be polite" + s.settings.Key)
	case "crashes":
		fmt.Fprintln(os.Stderr, "configuring went wrong")
		os.Exit(4)
	}
	return nil
}

func (s *scripted) Health(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checks++; s.name == "sickly" && s.checks == 2 {
		return errors.New("feeling unwell")
	}
	if s.name == "sick" {
		return errors.New("the license has expired")
	}
	return nil
}

func (s *scripted) Generate(ctx context.Context, req *llm.Request, send func(llm.Event) error) error {
	say := func(text string) error { return send(llm.Event{Kind: llm.EventText, Text: text}) }
	script := req.Messages[0].Text()
	if script == "refused" {
		return &llm.Error{Kind: llm.ErrCapacity, Message: "slow down", Status: 429, RetryAfter: 1500 * time.Millisecond}
	}
	if script == "too early" {
		_ = say("too early")
		return say("still too early")
	}
	if err := send(llm.Event{Kind: llm.EventAccepted, Model: req.Model}); err != nil {
		return err
	}
	if gate, ok := strings.CutPrefix(script, "until there is "); ok {
		if err := awaitFile(ctx, gate); err != nil {
			return err
		}
		_ = say("the end")
	}
	switch script {
	case "pid":
		_ = say(fmt.Sprint(os.Getpid()))
	case "greeting":
		_ = say(s.settings.Greeting)
	case "environment":
		_ = say(strings.Join(os.Environ(), "\n"))
	case "group":
		_ = say(fmt.Sprint(syscall.Getpgrp()))
	case "status":
		b, _ := os.ReadFile("/proc/self/status")
		_ = say(string(b))
	case "limits":
		b, _ := os.ReadFile("/proc/self/limits")
		_ = say(string(b))
	case "fork bomb":
		_ = say(fmt.Sprint(forkBomb()))
	case "stdin":
		b, err := io.ReadAll(os.Stdin)
		_ = say(fmt.Sprintf("%q %v", b, err))
	case "print":
		fmt.Println("printed while running")
		fmt.Fprintln(os.Stderr, "printed to stderr while running")
		slog.Warn("logged while running", "answer", 42)
	case "huge":
		_ = say(strings.Repeat("é", 6<<20))
	case "silent end":
		return nil
	case "cancelled by nobody":
		return llm.Errorf(llm.ErrCanceled, "somebody said so")
	case "panic":
		return say(req.Messages[len(req.Messages)].Text())
	case "confess":
		confess(s.settings.Key)
	case "blame":
		return llm.Errorf(llm.ErrUpstream, "the upstream says: %s is no key", s.settings.Key)
	case "grow to 280 MiB", "grow to 310 MiB", "grow a child to 310 MiB":
		fmt.Fprintln(os.Stderr, "I have grown")
		grow(script)
	case "leave a child", "start a child":
		_ = say(fmt.Sprint(leaveChild(script == "leave a child")))
	case "leave a daemon":
		_ = say(leaveDaemon())
	case "exit":
		fmt.Fprintln(os.Stderr, "out of paper")
		os.Exit(7)
	case "wait":
		<-ctx.Done()
		return ctx.Err()
	case "flood":
		return s.flood(send)
	}
	return send(llm.Event{Kind: llm.EventFinish, Finish: llm.FinishStop})
}

// awaitFile waits until a file is there.
func awaitFile(ctx context.Context, path string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// flood sends until the caller leaves, and notes when send blocks.
func (s *scripted) flood(send func(llm.Event) error) error {
	piece := strings.Repeat("x", 1<<10)
	watchdog := time.AfterFunc(time.Hour, s.halted)
	for {
		watchdog.Reset(300 * time.Millisecond)
		if err := send(llm.Event{Kind: llm.EventText, Text: piece}); err != nil {
			return err
		}
		s.mu.Lock()
		s.sent += int64(len(piece))
		s.mu.Unlock()
	}
}

// CountTokens answers how much text a flood has sent when it came to a halt.
func (s *scripted) CountTokens(ctx context.Context, _ *llm.Request) (int64, error) {
	select {
	case <-s.blocked:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent, ctx.Err()
}

func (s *scripted) CancelUsage(_ context.Context, attempt string) (*llm.Usage, error) {
	if attempt == "unprovable" {
		return nil, errors.New("the upstream forgot")
	}
	return &llm.Usage{Input: llm.Count(0), Output: llm.Count(9)}, nil
}

// asked are attempts that have no reference.
func asked(ids ...string) []host.Attempt {
	var all []host.Attempt
	for _, id := range ids {
		all = append(all, host.Attempt{ID: id})
	}
	return all
}

func (s *scripted) Receipts(_ context.Context, attempts []provider.Attempt) ([]provider.Receipt, error) {
	var out []provider.Receipt
	for _, attempt := range attempts {
		a := attempt.ID
		switch a {
		case "unknown":
		case "negative":
			out = append(out, provider.Receipt{Attempt: a, Usage: llm.Usage{Output: llm.Count(-1)}})
		case "broken":
			return out, llm.Errorf(llm.ErrUpstream, "the archive burned down")
		default:
			out = append(out, provider.Receipt{Attempt: a, Usage: llm.Usage{Output: llm.Count(5)}})
		}
	}
	return out, nil
}

// builtin starts this binary again.
func builtin(name string) ([]string, bool) {
	self, err := os.Executable()
	if err != nil || name == "file-only" {
		return nil, false
	}
	return []string{self, "run-plugin", name}, true
}

// newHost makes a host whose built-in plugins are pluginMain's. It ends with the test.
func newHost(t *testing.T, change ...func(*host.Options)) *host.Host {
	t.Helper()
	options := host.Options{Builtin: builtin, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&options)
	}
	h := host.New(options)
	t.Cleanup(h.Close)
	return h
}

// spec is a provider that runs a built-in plugin.
func spec(plugin string) host.Spec {
	return host.Spec{Name: "test", Source: host.Source{Plugin: plugin}}
}

func acquire(t *testing.T, h *host.Host, s host.Spec) *host.Plugin {
	t.Helper()
	p, err := h.Acquire(t.Context(), s)
	require.NoError(t, err)
	return p
}

var attempts atomic.Int64

// ask is a request with one message.
func ask(script string) *llm.Request {
	return &llm.Request{
		Attempt: fmt.Sprint("attempt ", attempts.Add(1)), Model: "m", MaxTokens: 10,
		Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(script)}}},
	}
}

// talk makes an attempt and reads it to its end. The error is nil after io.EOF.
func talk(ctx context.Context, p *host.Plugin, script string) ([]llm.Event, error) {
	s, err := p.Generate(ctx, ask(script))
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return rest(s)
}

// rest reads a stream to its end.
func rest(s *host.Stream) ([]llm.Event, error) {
	var all []llm.Event
	for {
		events, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, events...)
	}
}

func text(events []llm.Event) string {
	var r llm.Reply
	for _, ev := range events {
		r.Add(ev)
	}
	r.Close()
	return r.Text()
}

// capture is a log that a test reads once the host is closed: all output of a plugin is in it then.
func capture(o *host.Options) *strings.Builder {
	var lines strings.Builder
	o.Logger = slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return &lines
}
