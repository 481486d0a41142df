package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestMain makes the test binary the command fareway, under that name in the scripts and under any name for
// the providers that a gateway starts of itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "gateway" && os.Args[2] == "provider" {
		main()
		return
	}
	testscript.Main(m, map[string]func(){"fareway": main, "bench-upstream": benchUpstream,
		"fareway-provider-later": laterProvider})
}

// TestScripts runs testdata/script/*.txtar with the real executable. Beside testscript's own commands there are
//
//	up [ARGS]                 starts `fareway gateway up --listen 127.0.0.1:0 ARGS` in the folder data, waits until
//	                          it listens, and sets $URL, $ADDR and $PID; what it prints is in up.out
//	down [PATTERN]            ends it with SIGTERM, and expects it to end with status 0; each line on stderr matches
//	ended                     waits for its end, which was asked for in another way
//	hangup                    sends it SIGHUP
//	status N COMMAND...       runs a command that ends with status N
//	serves N                  waits until the configuration that it keeps as number N serves
//	againserves N             waits until its log says for the Nth time that the file is again what serves; nothing is
//	                          then left of the failure, and the configuration is the same
//	logs TEXT                 waits until its log has a text
//	crash                     ends it with SIGKILL
//	listen VAR                listens on a free port until the script ends; VAR is its host:port
//	freeaddr VAR              the same, but nobody listens there
//	setversion FILE N         writes a schema version into a ledger
//	upstream MODEL...         starts a fake upstream with these models, which wants the value of $HOME as its key;
//	                          $UPSTREAM is its address
//	! upstream MODEL...       the same, and it never reports usage
//	example NAME              copies a file of examples/backends; its providers have a minute to start
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Values[gatewayKey{}] = new(gatewayProcess)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"up":          up,
			"down":        down,
			"ended":       ended,
			"crash":       crash,
			"hangup":      hangup,
			"serves":      serves,
			"logs":        logs,
			"againserves": againServes,
			"status":      status,
			"listen":      listen,
			"freeaddr":    freeAddr,
			"setversion":  setVersion,
			"example":     example,
			"upstream":    startUpstream,
		},
	})
}

func startUpstream(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("upstream: takes models")
	}
	s, err := upstream.Listen("127.0.0.1:0", upstream.Options{Models: args, APIKey: ts.Getenv("HOME")})
	ts.Check(err)
	ts.Defer(s.Close)
	for _, model := range args {
		if neg {
			unmetered := upstream.Say("Hello.")
			unmetered.Usage = upstream.UsageNever
			s.SetModel(model, unmetered)
		}
	}
	ts.Setenv("UPSTREAM", s.URL())
}

func example(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("example: takes no !, and one name")
	}
	text, err := os.ReadFile(filepath.Join("..", "examples", "backends", args[0]))
	ts.Check(err)
	const plugin = "  plugin = "
	patient := strings.ReplaceAll(string(text), plugin, "  start_timeout = \"1m\"\n"+plugin)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(patient), 0o600))
}

type gatewayKey struct{}

// gatewayProcess is the gateway that a script has started.
type gatewayProcess struct {
	cmd     *exec.Cmd
	out     *os.File
	stderr  strings.Builder
	printed chan struct{} // closed when stdout is at its end
}

func process(ts *testscript.TestScript) *gatewayProcess {
	return ts.Value(gatewayKey{}).(*gatewayProcess)
}

// startTimeout is generous: the tests share few cores.
const startTimeout = time.Minute

func up(ts *testscript.TestScript, neg bool, args []string) {
	p := process(ts)
	if neg || p.cmd != nil {
		ts.Fatalf("up: takes no !, and one gateway at a time")
	}
	file, err := os.Create(ts.MkAbs("up.out"))
	ts.Check(err)
	p.out, p.stderr, p.printed = file, strings.Builder{}, make(chan struct{})
	program, err := exec.LookPath("fareway")
	ts.Check(err)
	p.cmd = exec.Command(program, append([]string{"gateway", "up", "--listen", "127.0.0.1:0", "--data", "data"},
		args...)...)
	p.cmd.Dir = ts.Getenv("WORK")
	p.cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("WORK"))
	if key := ts.Getenv("LATE_KEY"); key != "" {
		p.cmd.Env = append(p.cmd.Env, "LATE_KEY="+key)
	}
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(p.cmd.Start())
	ts.Defer(func() {
		if p.cmd != nil {
			_ = p.cmd.Process.Kill()
			<-p.printed
			_ = p.cmd.Wait()
		}
	})

	// The last line of either way to print.
	ready := make(chan string, 1)
	selftest := true
	for _, a := range args {
		selftest = selftest && a != "--no-selftest"
	}
	go p.read(stdout, selftest, ready)
	select {
	case url := <-ready:
		if url == "" {
			_ = p.cmd.Wait()
			p.cmd = nil
			ts.Fatalf("up: it has ended: %s", p.stderr.String())
		}
		ts.Setenv("URL", url)
		ts.Setenv("ADDR", strings.TrimPrefix(url, "http://"))
		ts.Setenv("PID", strconv.Itoa(p.cmd.Process.Pid))
	case <-time.After(startTimeout):
		ts.Fatalf("up: it did not listen in %v: %s", startTimeout, p.stderr.String())
	}
}

// read copies what the gateway prints into up.out and sends its URL as soon as it has printed everything, or ""
// when it ends before.
func (p *gatewayProcess) read(stdout io.Reader, selftest bool, ready chan<- string) {
	defer close(p.printed)
	var url string
	sent := false
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if _, err := fmt.Fprintln(p.out, lines.Text()); err != nil {
			break
		}
		if _, found, ok := strings.Cut(lines.Text(), "listening on "); ok {
			url = found
		}
		if url != "" && !sent && (!selftest || strings.HasPrefix(lines.Text(), "Ctrl-C")) {
			ready <- url
			sent = true
		}
	}
	_ = p.out.Close()
	if !sent {
		ready <- ""
	}
}

// end waits for the process, whose end has been asked for.
func (p *gatewayProcess) end() error {
	<-p.printed
	err := p.cmd.Wait()
	p.cmd = nil
	return err
}

func down(ts *testscript.TestScript, neg bool, args []string) {
	p := process(ts)
	if neg || len(args) > 1 || p.cmd == nil {
		ts.Fatalf("usage: down [PATTERN], after up")
	}
	expected := regexp.MustCompile("^$")
	if len(args) > 0 {
		expected = regexp.MustCompile(args[0])
	}
	ts.Check(p.cmd.Process.Signal(syscall.SIGTERM))
	if err := p.end(); err != nil {
		ts.Fatalf("down: it ended with %v: %s", err, p.stderr.String())
	}
	for line := range strings.Lines(p.stderr.String()) {
		if !expected.MatchString(line) {
			ts.Fatalf("down: it wrote on stderr: %s", line)
		}
	}
}

func ended(ts *testscript.TestScript, neg bool, args []string) {
	p := process(ts)
	if neg || len(args) > 0 || p.cmd == nil {
		ts.Fatalf("usage: ended, after up")
	}
	if err := p.end(); err != nil {
		ts.Fatalf("ended: it ended with %v: %s", err, p.stderr.String())
	}
}

func hangup(ts *testscript.TestScript, neg bool, args []string) {
	p := process(ts)
	if neg || len(args) > 0 || p.cmd == nil {
		ts.Fatalf("usage: hangup, after up")
	}
	ts.Check(p.cmd.Process.Signal(syscall.SIGHUP))
}

func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND...")
	}
	got := "0"
	if exit, ok := errors.AsType[*exec.ExitError](ts.Exec(args[1], args[2:]...)); ok {
		got = strconv.Itoa(exit.ExitCode())
	}
	if got != args[0] {
		ts.Fatalf("status: it ended with %s", got)
	}
}

func serves(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serves N")
	}
	number, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	socket := ts.MkAbs("data/admin.sock")
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	waitFor(ts, func() bool {
		var status struct {
			Number int64 `json:"config_number"`
		}
		resp, err := client.Get("http://localhost/fareway/status")
		ts.Check(err)
		err = json.NewDecoder(resp.Body).Decode(&status)
		ts.Check(errors.Join(err, resp.Body.Close()))
		return status.Number == number
	})
}

func logs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: logs TEXT")
	}
	waitFor(ts, func() bool {
		text, err := os.ReadFile(ts.MkAbs("data/fareway.log"))
		if !errors.Is(err, fs.ErrNotExist) { // it may have been renamed
			ts.Check(err)
		}
		return bytes.Contains(text, []byte(args[0]))
	})
}

func againServes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: againserves N")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	waitFor(ts, func() bool {
		return strings.Count(ts.ReadFile("data/fareway.log"), "the configuration file is again what serves") == n
	})
	ts.Check(ts.Exec("fareway", "gateway", "status", "--data", "data"))
	if out := ts.ReadFile("stdout"); strings.Contains(out, "The last load") || !strings.Contains(out, "number 4,") {
		ts.Fatalf("againserves: something is left: %s", out)
	}
}

func waitFor(ts *testscript.TestScript, done func() bool) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(startTimeout); !done(); {
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("it has not come in %v", startTimeout)
		}
	}
}

func crash(ts *testscript.TestScript, neg bool, args []string) {
	p := process(ts)
	if neg || len(args) > 0 || p.cmd == nil {
		ts.Fatalf("usage: crash, after up")
	}
	ts.Check(p.cmd.Process.Kill())
	if _, ok := errors.AsType[*exec.ExitError](p.end()); !ok {
		ts.Fatalf("crash: it was not killed")
	}
}

func listen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listen VAR")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = ln.Close() })
	ts.Setenv(args[0], ln.Addr().String())
}

func freeAddr(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: freeaddr VAR")
	}
	// Below the ports that outgoing connections get, and those that gateways find for themselves, so that nobody takes
	// it before the gateway does.
	for {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 5000+rand.IntN(5000)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		ts.Check(err)
		ts.Setenv(args[0], ln.Addr().String())
		ts.Check(ln.Close())
		return
	}
}

func setVersion(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: setversion FILE N")
	}
	conn, err := sqlite.OpenConn(filepath.Clean(ts.MkAbs(args[0])), sqlite.OpenReadWrite)
	ts.Check(err)
	err = sqlitex.ExecuteTransient(conn, "UPDATE meta SET version = ?", &sqlitex.ExecOptions{Args: []any{args[1]}})
	ts.Check(errors.Join(err, conn.Close()))
}
