// Package postgrestest starts PostgreSQL servers for tests: of this machine's packages, in a temporary folder,
// reached by a socket there.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a server that runs.
type Server struct {
	dir, bin string
	as       *syscall.Credential
	cmd      *exec.Cmd
}

// Install is what has to be done where there is no PostgreSQL.
const Install = "PostgreSQL is not installed: apt-get install postgresql (make test does it as root)"

// findPrograms is the folder of the newest PostgreSQL of this machine.
func findPrograms() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.New(Install)
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(strings.Split(path, "/")[4])
		return n
	}
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(found[len(found)-1]), nil
}

// Start starts a server. settings are lines of postgresql.conf, which come after those that make it quick and unsafe
// for a machine that fails.
func Start(settings ...string) (_ *Server, err error) {
	s := &Server{}
	if s.bin, err = findPrograms(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "fareway-pg"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if os.Getuid() == 0 { // the server refuses to run as root
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, fmt.Errorf("the user postgres: %w; %s", err, Install)
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(s.dir, int(uid), int(gid)); err != nil {
			return nil, err
		}
	}
	if out, err := s.command("initdb", "-D", s.data(), "-U", "fareway", "-A", "trust", "--no-sync", "-E", "UTF8",
		"--locale=C.UTF-8").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	conf := append([]string{
		"listen_addresses = ''", "unix_socket_directories = '" + s.dir + "'", "fsync = off", "full_page_writes = off",
		"max_connections = 1000", "shared_buffers = 64MB", "max_wal_size = 256MB", "autovacuum_naptime = 5s",
	}, settings...)
	if err := s.Configure(conf...); err != nil {
		return nil, err
	}
	return s, s.Run()
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command is a program of the server's, run as its user.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return cmd
}

// Configure adds lines to the server's configuration.
func (s *Server) Configure(lines ...string) error {
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n" + strings.Join(lines, "\n") + "\n")
	return errors.Join(err, f.Close())
}

// Run starts the server, which is not running, and waits until it takes connections.
func (s *Server) Run() error {
	s.cmd = s.command("postgres", "-D", s.data())
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			said, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("the server does not take connections: %w: %s", err, said)
		case <-tick.C:
		}
	}
}

// Follow starts a standby of the server, which is its synchronous one from then on. settings are lines of its
// postgresql.conf.
func (s *Server) Follow(settings ...string) (_ *Server, err error) {
	f, err := s.backUp([]string{"-R"}, settings...)
	if err != nil {
		return nil, err
	}
	if err := f.Run(); err != nil {
		return nil, errors.Join(err, f.Stop())
	}
	for _, sql := range []string{`ALTER SYSTEM SET synchronous_standby_names = 'standby'`, `SELECT pg_reload_conf()`} {
		if err := s.Exec(sql); err != nil {
			return nil, errors.Join(err, f.Stop())
		}
	}
	return f, nil
}

// BackUp makes a base backup of the server while it runs: another server, which Run starts from what this one had at
// that moment.
func (s *Server) BackUp() (*Server, error) { return s.backUp(nil) }

// backUp makes a server of a base backup, which does not run yet.
func (s *Server) backUp(how []string, settings ...string) (_ *Server, err error) {
	f := &Server{bin: s.bin, as: s.as}
	if f.dir, err = os.MkdirTemp("", "fareway-pg"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Stop())
		}
	}()
	if s.as != nil {
		if err := os.Chown(f.dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return nil, err
		}
	}
	out, err := f.command("pg_basebackup", append(how, "-D", f.data(), "-X", "stream", "-c", "fast", "--no-sync", "-d",
		"host="+s.dir+" user=fareway application_name=standby")...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	return f, f.Configure(append(settings, "unix_socket_directories = '"+f.dir+"'")...)
}

// Freeze stops all of the server's processes where they are, Thaw has them go on.
func (s *Server) Freeze() error { return s.signalAll(syscall.SIGSTOP) }

// Thaw undoes Freeze.
func (s *Server) Thaw() error { return s.signalAll(syscall.SIGCONT) }

func (s *Server) signalAll(signal syscall.Signal) error {
	for _, pid := range s.processes() {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// Signal sends a signal to the server's first process: SIGINT ends it at once, SIGQUIT as a crash.
func (s *Server) Signal(signal syscall.Signal) error {
	if err := s.cmd.Process.Signal(signal); err != nil {
		return err
	}
	_ = s.cmd.Wait() // it was told to end
	return nil
}

// Stop ends the server and removes its folder.
func (s *Server) Stop() (err error) {
	if s.cmd != nil && s.cmd.ProcessState == nil {
		err = s.Signal(syscall.SIGQUIT)
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Dir is the folder of the server's socket.
func (s *Server) Dir() string { return s.dir }

// URL is that of a database.
func (s *Server) URL(database string) string {
	return "postgres://fareway@/" + database + "?host=" + s.dir
}

// CreateDatabase makes a database like another one ("template1": an empty one), which ends with the test.
func (s *Server) CreateDatabase(t testing.TB, name, like string) string {
	t.Helper()
	named := pgx.Identifier{name}.Sanitize()
	if err := s.Exec(`CREATE DATABASE ` + named + ` TEMPLATE ` + pgx.Identifier{like}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Exec(`DROP DATABASE IF EXISTS ` + named + ` WITH (FORCE)`); err != nil {
			t.Error(err)
		}
	})
	return s.URL(name)
}

// Exec makes a statement in the server's own database.
func (s *Server) Exec(sql string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err == nil {
		_, err = conn.Exec(ctx, sql)
		err = errors.Join(err, conn.Close(ctx))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// processes are the server's, the first one first.
func (s *Server) processes() []int {
	all := []int{s.cmd.Process.Pid}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		if fields := readStat(path); len(fields) > 1 && fields[1] == strconv.Itoa(all[0]) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			all = append(all, pid)
		}
	}
	return all
}

// readStat are the fields of a process behind its name, from its state on (proc(5)); none where it has ended.
func readStat(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

// CPU is the time that the server's processes have used, those included that have ended, in seconds.
func (s *Server) CPU() float64 {
	const ticks = 100 // a second: USER_HZ, proc(5)
	total := 0
	for _, pid := range s.processes() {
		fields := readStat(fmt.Sprintf("/proc/%d/stat", pid))
		for _, i := range []int{11, 12, 13, 14} { // utime, stime, and of children that were waited for
			if i < len(fields) {
				n, _ := strconv.Atoi(fields[i])
				total += n
			}
		}
	}
	return float64(total) / ticks
}
