package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"

	"github.com/fareway/fareway/plugins/internal/wire"
)

// runKey is the variable that marks a plugin's process and all that it starts, each run by a value of its own.
const runKey = "FAREWAY_PLUGIN_RUN"

// noHome is the home of a built-in plugin, which has none: it is the gateway's executable, and Caddy's packages look
// for one as soon as they are loaded.
const noHome = "HOME=/nonexistent"

// passed are the variables of the gateway's environment that a plugin gets. Everything else may be a secret.
var passed = []string{"PATH", "TMPDIR", "TZ", "LANG"}

// child runs one process for go-plugin, in the place of go-plugin's own runner, which gives a plugin the
// gateway's standard input and process group, lets it crash the gateway by a strange line of log, and does
// not tell when the process ended or why.
type child struct {
	exe executable
	run string // runKey with its value
	own mark
	env []string
	cmd *exec.Cmd // the started one
	log *slog.Logger
	out *io.PipeReader // the handshake line, for go-plugin
	say *lastWords

	scrub scrubber // of what it says

	exited chan struct{} // closed when the process is gone and its output has been read

	mu     sync.Mutex
	pid    int    // 0 before the start
	doomed bool   // killed; maybe before it was started
	reaped bool   // the process id may belong to someone else
	first  string // the first line on stdout: the handshake, or the reason why there was none
}

func newChild(exe executable, secrets *scrubber, log *slog.Logger) *child {
	run := runKey + "=" + rand.Text()
	return &child{exe: exe, run: run, own: newMark(run), log: log, say: &lastWords{}, exited: make(chan struct{}),
		scrub: scrubber{host: secrets}}
}

// prepare takes the environment that go-plugin's handshake needs.
func (c *child) prepare(handshake []string) {
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			c.env = append(c.env, name+"="+value)
		}
	}
	if c.exe.telemetry {
		c.env = append(c.env, telemetryVariables()...)
	}
	c.env = append(c.env, handshake...)
	c.env = append(c.env, wire.HostPIDKey+"="+strconv.Itoa(os.Getpid()), c.run)
	if c.exe.digest == "" {
		c.env = append(c.env, noHome)
	}
}

// Start implements runner.Runner.
func (c *child) Start(context.Context) error {
	file, err := c.exe.open(os.Geteuid())
	if err != nil {
		return err
	}
	defer file.close()
	stdout, outEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	defer outEnd.Close()
	stderr, errEnd, err := os.Pipe()
	if err != nil {
		stdout.Close()
		return err
	}
	defer errEnd.Close()
	if err := c.launch(file, outEnd, errEnd); err != nil {
		stdout.Close()
		stderr.Close()
		return err
	}
	c.mu.Lock()
	c.pid = c.cmd.Process.Pid
	doomed := c.doomed
	c.mu.Unlock()
	if doomed {
		c.killGroup()
	}
	var handshake *io.PipeWriter
	c.out, handshake = io.Pipe()
	var pumps sync.WaitGroup
	pumps.Go(func() { c.readStdout(stdout, handshake) })
	pumps.Go(func() { c.readStderr(stderr) })
	go func() {
		awaitEnd(c.cmd)
		c.reap()
		// Nobody of the group holds the pipes any more. A process that left the group may; it is not
		// waited for.
		deadline := time.Now().Add(time.Second)
		_ = stdout.SetReadDeadline(deadline)
		_ = stderr.SetReadDeadline(deadline)
		pumps.Wait()
		close(c.exited)
	}()
	return nil
}

const (
	// busyTries is how often a file is tried that somebody writes to at the moment: one that is being copied, or whose
	// descriptor another process has got for the moment between its fork and its exec.
	busyTries = 100
	busyPause = 10 * time.Millisecond
)

// launch starts the process from a file that was looked at.
func (c *child) launch(file *opened, stdout, stderr *os.File) error {
	credential, err := c.exe.confine.credential()
	if err != nil {
		return err
	}
	if credential != nil {
		if err := giveSocketFolder(credential, c.env); err != nil {
			return err
		}
	}
	for range busyTries {
		c.cmd = exec.Command(c.exe.argv[0], c.exe.argv[1:]...)
		c.cmd.Path, c.cmd.ExtraFiles = file.path, file.extra()
		c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = c.env, stdout, stderr
		c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: credential}
		err = startUnprivileged(c.cmd, c.limit)
		if credential != nil && errors.Is(err, syscall.EACCES) {
			return fmt.Errorf("confine: user %q may not run it: %w", c.exe.confine.User, err)
		}
		if !errors.Is(err, syscall.ETXTBSY) {
			return err
		}
		time.Sleep(busyPause)
	}
	return err
}

// limit marks a process and sets its limits.
func (c *child) limit(pid int) error {
	c.own.put(pid)
	return c.exe.confine.limits(pid)
}

// readStdout hands the first line to go-plugin and logs all others.
func (c *child) readStdout(stdout io.ReadCloser, handshake *io.PipeWriter) {
	defer stdout.Close()
	defer handshake.Close()
	first := true
	readLines(stdout, func(line string) {
		if !first {
			line = c.scrub.clean(line)
			c.say.add(line)
			c.log.Info(line, "from", "stdout")
			return
		}
		first = false
		c.mu.Lock()
		c.first = line
		c.mu.Unlock()
		// An error says that go-plugin no longer waits.
		_, _ = io.WriteString(handshake, line+"\n")
	})
}

func (c *child) readStderr(stderr io.ReadCloser) {
	defer stderr.Close()
	lines := newStderrLog(&c.scrub)
	defer lines.close(c.log)
	readLines(stderr, func(line string) { c.say.add(lines.write(c.log, line)) })
}

// killGroup kills the process and what it started, unless its id may by now be someone else's.
func (c *child) killGroup() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doomed = true
	if c.pid != 0 && !c.reaped {
		// An error says that there is nothing left to kill.
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
}

// reap takes the status of the process that has ended, and kills what it left behind, in its group or, where the
// system tells, in a session of its own.
func (c *child) reap() {
	c.mu.Lock()
	_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	_ = c.cmd.Wait() // how it ended is in ProcessState
	c.reaped = true
	c.mu.Unlock()
	c.own.killAll()
}

// exitText says how the process ended, "" while it runs.
func (c *child) exitText() string {
	select {
	case <-c.exited:
		return c.cmd.ProcessState.String()
	default:
		return ""
	}
}

// firstLine is the first line on stdout, "" if there was none.
func (c *child) firstLine() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.TrimSpace(c.first)
}

// Kill implements runner.AttachedRunner.
func (c *child) Kill(context.Context) error {
	c.killGroup()
	return nil
}

// Wait implements runner.AttachedRunner.
func (c *child) Wait(context.Context) error {
	<-c.exited
	if !c.cmd.ProcessState.Success() {
		return errors.New(c.cmd.ProcessState.String())
	}
	return nil
}

// Stdout implements runner.Runner.
func (c *child) Stdout() io.ReadCloser { return c.out }

// Stderr implements runner.Runner. It is empty: go-plugin panics on some lines, so we read stderr ourselves.
func (c *child) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name implements runner.Runner.
func (c *child) Name() string { return c.exe.argv[0] }

// ID implements runner.AttachedRunner.
func (c *child) ID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strconv.Itoa(c.pid)
}

// Diagnose implements runner.Runner. Our own errors say more.
func (c *child) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.AddrTranslator.
func (c *child) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin implements runner.AddrTranslator.
func (c *child) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

var _ runner.Runner = (*child)(nil)
