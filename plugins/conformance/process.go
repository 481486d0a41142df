package conformance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fareway/fareway/plugins/internal/wire"
)

// passed are the variables of the environment that the gateway hands on.
var passed = []string{"PATH", "TMPDIR", "TZ", "LANG"}

// process is a program under test, in a process group of its own.
type process struct {
	cmd    *exec.Cmd
	dir    string // of its socket, "" without one
	stdout recorder
	stderr recorder
	pipes  []*os.File    // where they are read from
	closed chan struct{} // closed when nobody holds its output any more
	exited chan struct{} // closed when it has ended and its output is read
}

// run starts a program with what the gateway hands on of its environment, and more. stdin may be nil.
func run(command []string, stdin *os.File, env ...string) (*process, error) {
	p := &process{exited: make(chan struct{}), closed: make(chan struct{})}
	p.stdout.line, p.stderr.line = make(chan struct{}), make(chan struct{})
	p.cmd = exec.Command(command[0], command[1:]...)
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok {
			p.cmd.Env = append(p.cmd.Env, name+"="+value)
		}
	}
	p.cmd.Env = append(p.cmd.Env, env...)
	if stdin != nil { // nil in an interface would not be
		p.cmd.Stdin = stdin
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var ends []*os.File
	defer func() {
		for _, end := range ends {
			end.Close()
		}
	}()
	for range 2 {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("making a pipe: %w", err)
		}
		p.pipes, ends = append(p.pipes, read), append(ends, write)
	}
	p.cmd.Stdout, p.cmd.Stderr = ends[0], ends[1]
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w; check that it is executable and built for this machine",
			strings.Join(command, " "), err)
	}
	var reading sync.WaitGroup
	for i, to := range []*recorder{&p.stdout, &p.stderr} {
		reading.Go(func() {
			defer p.pipes[i].Close()
			_, _ = io.Copy(to, p.pipes[i]) // to its end, or to kill
		})
	}
	go func() {
		reading.Wait()
		close(p.closed)
	}()
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		select {
		case <-p.closed:
		case <-time.After(lingering): // somebody else holds its output
		}
		close(p.exited)
	}()
	return p, nil
}

// lingering is how long the output of a process that has ended is waited for.
const lingering = 10 * time.Second

// launched starts the program under test as the gateway does. more comes last in its environment.
func (s *suite) launched(command []string, stdin *os.File, id *identity, more ...string) (*process, error) {
	tmp := os.TempDir()
	if len(tmp) > 50 { // a socket's name has a limit of about 100 bytes
		tmp = "/tmp"
	}
	dir, err := os.MkdirTemp(tmp, "fw")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the socket: %w", err)
	}
	p, err := run(command, stdin, append([]string{
		wire.CookieKey + "=" + wire.CookieValue,
		wire.HostPIDKey + "=" + strconv.Itoa(os.Getpid()),
		"PLUGIN_PROTOCOL_VERSIONS=" + strconv.Itoa(wire.Version),
		"PLUGIN_UNIX_SOCKET_DIR=" + dir,
		"PLUGIN_CLIENT_CERT=" + id.pem,
		"PLUGIN_MIN_PORT=0", "PLUGIN_MAX_PORT=0", // go-plugin's, for TCP
	}, slices.Concat(s.o.Env, more)...)...)
	if err != nil {
		_ = os.Remove(dir)
		return nil, err
	}
	p.dir = dir
	return p, nil
}

// kill ends the process, and what it has started in its group.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // an error says that there is nothing left
	<-p.exited
	for _, pipe := range p.pipes {
		_ = pipe.SetReadDeadline(time.Now()) // an error says that it is closed
	}
	<-p.closed
	if p.dir != "" {
		_ = os.RemoveAll(p.dir) // a socket in a temporary folder
	}
}

// endsWithin waits for the end of the process.
func (p *process) endsWithin(d time.Duration) bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(d):
		return false
	}
}

// firstLine waits for the first line on stdout.
func (p *process) firstLine(ctx context.Context) (string, error) {
	select {
	case <-p.stdout.line:
	case <-p.exited:
		if line, ok := p.stdout.first(); ok {
			return line, nil
		}
		return "", fmt.Errorf("it ended (%s) before the handshake; %s", p.cmd.ProcessState, p.lastWords())
	case <-ctx.Done():
		return "", fmt.Errorf("it printed no line: %w; %s", context.Cause(ctx), p.lastWords())
	}
	line, _ := p.stdout.first()
	return line, nil
}

// lastWords is the end of what it printed to stderr, as the end of a sentence.
func (p *process) lastWords() string {
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	if lines[0] == "" && len(lines) == 1 {
		return "it said nothing"
	}
	return "its last words: " + strings.Join(lines[max(0, len(lines)-maxWords):], "\n  ")
}

// maxWords are the lines of a stack that say where it came from.
const maxWords = 15

// recorder keeps what is written to it, up to a limit.
type recorder struct {
	line chan struct{} // closed when there is a whole line

	mu   sync.Mutex
	text bytes.Buffer
	full bool // line is closed
}

// maxRecorded bounds the output that is kept, in bytes.
const maxRecorded = 4 << 20

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text.Write(b[:min(len(b), maxRecorded-r.text.Len())])
	if !r.full && bytes.IndexByte(r.text.Bytes(), '\n') >= 0 {
		r.full = true
		close(r.line)
	}
	return len(b), nil
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// first is the first line, which need not be whole; ok is false when there is none.
func (r *recorder) first() (line string, ok bool) {
	line, _, _ = strings.Cut(r.String(), "\n")
	line = strings.TrimSpace(line)
	return line, line != ""
}
