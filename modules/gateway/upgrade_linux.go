package gateway

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/fareway/fareway/modules/internal/engine"
)

const (
	// prepareWithin is how long the new process may take until it needs nothing but the ledger, providers included, and
	// serveWithin how long until it serves with it.
	prepareWithin = 2 * time.Minute
	serveWithin   = 2 * time.Minute
	// enterWithin is how long requests that have begun may take until they need the ledger no more to begin, while those
	// that come wait.
	enterWithin = 500 * time.Millisecond
	// closeAfter is how long connections may be used that clients have open, each for one more request. A server that
	// closes one while a request comes over it loses that; one that is not used for so long is likely not to be.
	closeAfter = 5 * time.Second
	// maxCheckOutput bounds what is kept of what a program says.
	maxCheckOutput = 16 << 10
)

// ErrUpgrading is why another process cannot be started to take this one's place.
var ErrUpgrading = errors.New("a process that is to take this one's place has been started already")

// Upgraded says which process has taken this one's place.
type Upgraded struct {
	PID     int
	Program string
	Version string        // what it says of itself
	Paused  time.Duration // for which requests waited
	Running int           // requests that go on in the process before
	Until   time.Time     // when those are ended at the latest
}

// upgrading is held by whoever starts a process to take this one's place, and never let go of when it has.
var upgrading sync.Mutex

// Upgrade starts a program ("" is the one at the path of this one) to take this process's place, with its arguments,
// its environment and its sockets (GAP-140). It returns once that serves; this process goes on with what runs, and
// ends then. Where it cannot be, nothing has changed and the error says why.
//
// The ledger is handed over once the new process needs nothing but that. Meanwhile connections wait in the queues of
// their sockets, and requests on connections that are open wait to be relayed.
func Upgrade(ctx context.Context, e *engine.Engine, program string) (Upgraded, error) {
	if err := checkReplaceable(e); err != nil {
		return Upgraded{}, err
	}
	if !upgrading.TryLock() {
		return Upgraded{}, ErrUpgrading
	}
	up, err := upgrade(ctx, e, program)
	if !e.IsDraining() {
		upgrading.Unlock()
	}
	return up, err
}

// checkReplaceable says why no process can take this one's place.
func checkReplaceable(e *engine.Engine) error {
	switch {
	case caddy.Exiting():
		return engine.ErrShutdown
	case len(os.Args) < 2 || os.Args[1] != "run":
		return errors.New("only a gateway that was started by `fareway run` can be replaced while it runs: stop this one " +
			"and start the new program; what runs is finished first")
	case slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "--pidfile") }):
		return errors.New("this gateway was started with --pidfile, which it removes at its end, when it names the new " +
			"process: start it without")
	case os.Getpid() == 1:
		return errors.New("this process is the first one of a container, which ends with it: start a container of the new " +
			"image and stop this one")
	case !e.IsAlone():
		return errors.New("this gateway is one of several on a ledger: restart them one after the other, which their load " +
			"balancer sees by /readyz")
	}
	return nil
}

func upgrade(ctx context.Context, e *engine.Engine, program string) (up Upgraded, err error) {
	log := e.Logger()
	if program, err = findProgram(program); err != nil {
		return up, err
	}
	if up.Version, err = checkProgram(ctx, program); err != nil {
		return up, err
	}
	if err := e.CheckPlansKept(ctx); err != nil {
		return up, err
	}
	log.Info("starting a process that is to take this one's place", "program", program, "version", up.Version)
	next, err := startSuccessor(program, program)
	if err != nil {
		return up, err
	}
	if err := next.await(ctx, saysPrepared, prepareWithin); err != nil {
		next.kill()
		return up, fmt.Errorf("the process that was to take this one's place was not ready to, and this one goes on: %w", err)
	}
	if caddy.Exiting() { // somebody has stopped this one meanwhile
		next.kill()
		return up, engine.ErrShutdown
	}
	began := time.Now()
	to, err := newRelay(e.DataDir(), log)
	if err != nil {
		next.kill()
		return up, err
	}
	listening.Pause()
	relaying.Store(to)
	entered, cancel := context.WithTimeout(context.Background(), enterWithin)
	e.AwaitEntered(entered)
	cancel()
	e.BeginDrain(0)
	// From here on there is no way back: whoever serves, it is another process.
	if err := next.serve(); err != nil {
		log.Error("the process that was to take this one's place has failed; starting this one's program in its place",
			"program", program, "error", err)
		next.kill() // it may have the ledger
		errAgain := serveAgain(e.DataDir(), log)
		_, until := e.WaitsFor()
		to.answer(errAgain, until)
		after := time.Duration(0)
		if errAgain == nil {
			after = closeAfter
		}
		go leave(e, after)
		return up, errors.Join(fmt.Errorf("the process that was to take this one's place has failed: %w", err), errAgain)
	}
	divertPackets(e.DataDir(), log)
	next.becomeMain(log)
	up.PID, up.Program, up.Paused = next.process.Pid, program, time.Since(began)
	up.Running, up.Until = e.WaitsFor()
	to.answer(nil, up.Until)
	log.Info("another process has taken this one's place; what runs goes on here", "pid", up.PID, "program", program,
		"paused", up.Paused, "requests", up.Running, "until", up.Until)
	go leave(e, closeAfter)
	return up, nil
}

// serveAgain has this process's own program serve in place of one that has failed.
func serveAgain(data string, log *slog.Logger) error {
	again, err := startSuccessor("/proc/self/exe", os.Args[0])
	if err != nil {
		return err
	}
	if err = again.await(context.Background(), saysPrepared, prepareWithin); err == nil {
		err = again.serve()
	}
	if err != nil {
		again.kill()
		return err
	}
	divertPackets(data, log)
	again.becomeMain(log)
	return nil
}

// leave ends this process, as SIGTERM does, once clients have had the time to close their connections.
func leave(e *engine.Engine, after time.Duration) {
	if app := serving.Load(); app != nil && after > 0 {
		app.stopProbes()
	}
	if app := serving.Load(); app != nil && app.http != nil {
		app.http.ShutdownDelay = 0 // no load balancer has to notice anything
	}
	<-time.After(after)
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		e.Logger().Error("ending this process, whose place another one has taken", "error", err)
	}
}

// findProgram is the program at a path, absolute; "" is where this process's was, which may be another one by now.
func findProgram(path string) (string, error) {
	if path == "" {
		own, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("finding this program: %w", err)
		}
		path = strings.TrimSuffix(own, " (deleted)")
	}
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("the program %q: give the whole path", path)
	}
	if _, err := exec.LookPath(path); err != nil {
		return "", fmt.Errorf("finding the program that is to take this one's place: %w", err)
	}
	return path, nil
}

// checkProgram says which version a program is, if it is a gateway that can serve the configuration which this process
// would serve if it were started now.
func checkProgram(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareWithin)
	defer cancel()
	version, err := output(ctx, program, "version")
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", program, err)
	}
	if !strings.HasPrefix(version, "fareway ") {
		return "", fmt.Errorf("%s is no fareway: its version is %q", program, version)
	}
	if _, err := output(ctx, program, append([]string{"validate"}, configArguments(os.Args[2:])...)...); err != nil {
		return "", fmt.Errorf("%s does not take the configuration, and this process goes on: %w", version, err)
	}
	return version, nil
}

// configArguments are those of the arguments of `run` that say which configuration it is.
func configArguments(args []string) (kept []string) {
	for i := 0; i < len(args); i++ {
		name, _, whole := strings.Cut(args[i], "=")
		if !slices.Contains([]string{"--config", "-c", "--adapter", "-a", "--envfile"}, name) {
			continue
		}
		kept = append(kept, args[i])
		if !whole && i+1 < len(args) {
			i++
			kept = append(kept, args[i])
		}
	}
	return kept
}

// output runs a program as this one's successor would, and returns what it says; that is in an error, too.
func output(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = successorEnv(os.Environ())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(cmp.Or(stderr.String(), stdout.String()))
		return "", fmt.Errorf("%w: %s", err, said[max(0, len(said)-maxCheckOutput):])
	}
	return strings.TrimSpace(stdout.String()), nil
}

// successorEnv is an environment without what is about this process alone.
func successorEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "LISTEN_") || name == "WATCHDOG_PID" || name == successionVariable
	})
}

// descriptorNames are the names of the sockets that a process gets: the first of them are a service manager's.
func descriptorNames(all, given int) string {
	names := slices.Repeat([]string{inheritedSocket}, all)
	for i := range given {
		names[i] = "given"
	}
	return strings.Join(names, ":")
}

// successorArgs are the arguments of a process without what is about one that is waited for (`fareway start`).
func successorArgs(args []string) (kept []string) {
	for i := 0; i < len(args); i++ {
		if name, _, whole := strings.Cut(args[i], "="); name == "--pingback" {
			if !whole {
				i++
			}
			continue
		}
		kept = append(kept, args[i])
	}
	return kept
}

// successor is a process that is to take this one's place.
type successor struct {
	process *os.Process
	conn    net.Conn
	says    chan string // its lines; closed when it says nothing more
	ended   chan struct{}
	state   *os.ProcessState // read after ended is closed
}

// startSuccessor starts a program under a name, with this process's arguments, environment and sockets.
func startSuccessor(program, name string) (*successor, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	ours := os.NewFile(uintptr(pair[0]), "successor")
	theirs := os.NewFile(uintptr(pair[1]), "predecessor")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err := errors.Join(err, ours.Close()); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	s := &successor{conn: conn, says: make(chan string, 4), ended: make(chan struct{})}
	var pid int
	pidFD := -1
	attributes := &syscall.SysProcAttr{PidFD: &pidFD}
	if os.Getenv("NOTIFY_SOCKET") != "" {
		// A child of the service manager's, as this process is: of a main process that is not, systemd does not wait for
		// the end when it stops a service, and kills what is left of that at once.
		attributes.Cloneflags = syscall.CLONE_PARENT
	}
	err = listening.Lend(func(descriptors []uintptr, given int) error {
		files := append([]uintptr{0, 1, 2}, descriptors...) // a service manager's keep their numbers
		files = append(files, theirs.Fd())
		env := append(successorEnv(os.Environ()), fmt.Sprintf("LISTEN_FDS=%d", len(descriptors)),
			"LISTEN_FDNAMES="+descriptorNames(len(descriptors), given),
			fmt.Sprintf("%s=%d", successionVariable, len(files)-1))
		args := append([]string{name}, successorArgs(os.Args[1:])...)
		var err error
		pid, err = syscall.ForkExec(program, args, &syscall.ProcAttr{Env: env, Files: files, Sys: attributes})
		return err
	})
	if err == nil {
		s.process, err = os.FindProcess(pid)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", program, err), conn.Close())
	}
	go s.read()
	go s.awaitExit(pidFD)
	return s, nil
}

// awaitExit closes ended at its end, by its descriptor: nobody but its parent can wait for a process. Its status is
// known where that is this one.
func (s *successor) awaitExit(pidFD int) {
	defer close(s.ended)
	for pidFD >= 0 {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(pidFD), Events: unix.POLLIN}}, -1); !errors.Is(err, unix.EINTR) {
			_ = unix.Close(pidFD)
			break
		}
	}
	s.state, _ = s.process.Wait()
}

func (s *successor) read() {
	defer close(s.says)
	for lines := bufio.NewScanner(s.conn); lines.Scan(); {
		s.says <- lines.Text()
	}
}

// await waits until it says a line.
func (s *successor) await(ctx context.Context, line string, within time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("it has not come so far within %s", within))
	defer cancel()
	select {
	case said, ok := <-s.says:
		if !ok {
			return s.awaitEnd(ctx)
		}
		if why, failed := strings.CutPrefix(said, saysFailed); failed {
			if text, err := strconv.Unquote(why); err == nil {
				why = text
			}
			return errors.New(why)
		}
		if said != line {
			return fmt.Errorf("it says %q in place of %q", said, line)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// awaitEnd is for one that has hung up: it says how it has ended.
func (s *successor) awaitEnd(ctx context.Context) error {
	select {
	case <-s.ended:
		how := "with a status that the service manager knows"
		if s.state != nil {
			how = s.state.String()
		}
		return fmt.Errorf("it has ended (%s); it is no fareway that can do this, or what it has written says why", how)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// serve lets it have the ledger, and waits until it serves.
func (s *successor) serve() error {
	if _, err := fmt.Fprintln(s.conn, saysYours); err != nil {
		return err
	}
	return s.await(context.Background(), saysServing, serveWithin)
}

// kill ends it, and waits for its end.
func (s *successor) kill() {
	_ = s.process.Kill() // it may have ended
	<-s.ended
	_ = s.conn.Close()
}

// becomeMain tells the service manager, if there is one, that it is the service's main process from now on. It has to
// be told before this process says that it ends, which would be the service's end.
func (s *successor) becomeMain(log *slog.Logger) {
	_, err := daemon.SdNotify(false, fmt.Sprintf("MAINPID=%d\n%s", s.process.Pid, daemon.SdNotifyWatchdog))
	if err != nil {
		log.Error("telling the service manager of the process that takes this one's place", "error", err)
	}
}
