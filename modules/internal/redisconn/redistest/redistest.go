// Package redistest starts redis-server for tests, in folders of their own. It never uses one that runs already.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/redisconn"
)

// Server is a redis-server, or a Sentinel.
type Server struct {
	t    testing.TB
	Dir  string // with its data and its log
	addr string // its socket, or host:port
	args []string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// binary finds the program: in PATH, or where `make .cache/bin/redis-server` puts it.
func binary(t testing.TB) string {
	if path, err := exec.LookPath("redis-server"); err == nil {
		return path
	}
	_, file, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(file), "../../../../.cache/bin/redis-server")
	_, err := os.Stat(path)
	require.NoError(t, err, "redis-server is not installed: run `make .cache/bin/redis-server`")
	return path
}

// Start starts a server on a unix socket, and ends it with the test. args are those of redis-server.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	dir := folder(t)
	socket := filepath.Join(dir, "redis.sock")
	return start(t, dir, socket, append([]string{"--port", "0", "--unixsocket", socket}, args...))
}

// StartTCP starts one on a port of this machine.
func StartTCP(t testing.TB, args ...string) *Server {
	t.Helper()
	port := freePort(t)
	addr := "127.0.0.1:" + strconv.Itoa(port)
	return start(t, folder(t), addr, append([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port)}, args...))
}

func start(t testing.TB, dir, addr string, args []string) *Server {
	t.Helper()
	s := &Server{t: t, Dir: dir, addr: addr, args: append([]string{"--dir", dir, "--save", "", "--appendonly", "no",
		"--logfile", filepath.Join(dir, "log"), "--daemonize", "no"}, args...)}
	s.Begin()
	t.Cleanup(s.Kill)
	return s
}

// folder is a new one with a short name: sockets have paths of 107 bytes at most.
func folder(t testing.TB) string {
	dir, err := os.MkdirTemp("", "redis") //nolint:usetesting // TempDir's names are too long
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

var lastPort atomic.Int32

// freePort finds a port that nobody has, and with whose number plus 10,000 nobody has one either: a Cluster's bus.
func freePort(t testing.TB) int {
	t.Helper()
	lastPort.CompareAndSwap(0, int32(15000+os.Getpid()%4000))
	for range 1000 {
		port := int(lastPort.Add(7))
		free := true
		for _, p := range []int{port, port + 10000} {
			l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(p))
			if err != nil {
				free = false
				continue
			}
			_ = l.Close()
		}
		if free {
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// Begin starts the process, after Kill again, and waits until it answers.
func (s *Server) Begin() {
	s.t.Helper()
	s.Launch()
	s.Await(func(c *redis.Client) error {
		err := c.Ping(context.Background()).Err()
		if err != nil && (strings.Contains(err.Error(), "NOAUTH") || strings.Contains(err.Error(), "LOADING")) {
			return nil
		}
		return err
	})
}

// Launch is Begin without the wait.
func (s *Server) Launch() {
	s.t.Helper()
	cmd := exec.Command(binary(s.t), s.args...)
	cmd.SysProcAttr = dieWithParent()
	started, done := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the process dies with the thread that made it
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(done)
	}()
	require.NoError(s.t, <-started)
	s.mu.Lock()
	s.cmd, s.done = cmd, done
	s.mu.Unlock()
}

// Await waits until ask has no error.
func (s *Server) Await(ask func(*redis.Client) error) {
	s.t.Helper()
	c := s.client()
	defer c.Close()
	var err error
	for range 4000 { // 20 s
		if err = ask(c); err == nil {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	text, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
	require.NoError(s.t, err, "%s", text)
}

// Signal sends the process a signal: SIGSTOP and SIGCONT, say.
func (s *Server) Signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NoError(s.t, s.cmd.Process.Signal(sig))
}

// Kill ends the process at once, and waits until it has ended.
func (s *Server) Kill() {
	s.mu.Lock()
	cmd, done := s.cmd, s.done
	s.mu.Unlock()
	_ = cmd.Process.Kill() // it may have ended
	<-done
}

// Options are those of a connection to it alone.
func (s *Server) Options() redisconn.Options { return redisconn.Options{Addrs: []string{s.addr}} }

// Addr is its socket, or host:port.
func (s *Server) Addr() string { return s.addr }

func (s *Server) client() *redis.Client {
	network := "tcp"
	if strings.HasPrefix(s.addr, "/") {
		network = "unix"
	}
	return redis.NewClient(&redis.Options{Network: network, Addr: s.addr, MaxRetries: -1, Protocol: 2,
		DisableIdentity: true})
}

// Do sends a command.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	c := s.client()
	defer c.Close()
	v, err := c.Do(context.Background(), args...).Result()
	require.NoError(s.t, err, "%v", args)
	return v
}

// Client is one with everything that Redis knows, until the test ends.
func (s *Server) Client() *redis.Client {
	c := s.client()
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// StartCluster starts a Cluster of masters, each with replicas.
func StartCluster(t testing.TB, masters, replicas int) []*Server {
	t.Helper()
	var all []*Server
	var addrs []string
	for range masters * (1 + replicas) {
		s := StartTCP(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-config-file", "nodes.conf",
			"--cluster-replica-validity-factor", "0")
		all, addrs = append(all, s), append(addrs, s.addr)
	}
	args := append([]string{"--cluster", "create"}, addrs...)
	args = append(args, "--cluster-replicas", strconv.Itoa(replicas), "--cluster-yes")
	out, err := exec.Command("redis-cli", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, s := range all {
		s.Await(func(c *redis.Client) error {
			info, err := c.ClusterInfo(context.Background()).Result()
			if err == nil && !strings.Contains(info, "cluster_state:ok") {
				err = fmt.Errorf("the Cluster is not ready: %s", info)
			}
			return err
		})
	}
	return all
}

// ClusterOptions are those of a connection to a Cluster.
func ClusterOptions(all []*Server) redisconn.Options {
	o := redisconn.Options{Mode: redisconn.Cluster}
	for _, s := range all {
		o.Addrs = append(o.Addrs, s.addr)
	}
	return o
}

// Watched is a server with replicas and Sentinels.
type Watched struct{ Servers, Sentinels []*Server }

// StartSentinel starts a server with a replica, and three Sentinels that watch it.
func StartSentinel(t testing.TB) *Watched {
	t.Helper()
	primary := StartTCP(t)
	host, port, _ := strings.Cut(primary.addr, ":")
	w := &Watched{Servers: []*Server{primary, StartTCP(t, "--replicaof", host+" "+port)}}
	w.Servers[1].Await(func(c *redis.Client) error {
		info, err := c.Info(context.Background(), "replication").Result()
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = fmt.Errorf("the replica is not ready: %s", info)
		}
		return err
	})
	for range 3 {
		dir := folder(t)
		file := filepath.Join(dir, "sentinel.conf")
		require.NoError(t, os.WriteFile(file, []byte("sentinel monitor mymaster "+host+" "+port+" 2\n"+
			"sentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 2000\n"), 0o600))
		p := freePort(t)
		s := &Server{t: t, Dir: dir, addr: "127.0.0.1:" + strconv.Itoa(p), args: []string{file, "--sentinel", "--bind",
			"127.0.0.1", "--port", strconv.Itoa(p), "--dir", dir, "--logfile", filepath.Join(dir, "log")}}
		s.Begin()
		t.Cleanup(s.Kill)
		w.Sentinels = append(w.Sentinels, s)
	}
	for _, s := range w.Sentinels {
		s.Await(func(c *redis.Client) error {
			info, err := c.Do(context.Background(), "SENTINEL", "CKQUORUM", "mymaster").Text()
			if err == nil && !strings.Contains(info, "3 usable") {
				err = fmt.Errorf("the Sentinels are not ready: %s", info)
			}
			return err
		})
		s.Await(func(c *redis.Client) error {
			replicas, err := c.Do(context.Background(), "SENTINEL", "REPLICAS", "mymaster").Slice()
			if err == nil && len(replicas) == 0 {
				err = fmt.Errorf("the Sentinels know no replica")
			}
			return err
		})
	}
	return w
}

// Options are those of a connection through the Sentinels.
func (w *Watched) Options() redisconn.Options {
	o := redisconn.Options{Mode: redisconn.Sentinel, Master: "mymaster"}
	for _, s := range w.Sentinels {
		o.Addrs = append(o.Addrs, s.addr)
	}
	return o
}

// OwnerOf is the node of a Cluster that has a slot.
func OwnerOf(t testing.TB, all []*Server, slot int) *Server {
	t.Helper()
	for _, row := range all[0].Do("CLUSTER", "SLOTS").([]any) {
		r := row.([]any)
		if int64(slot) < r[0].(int64) || int64(slot) > r[1].(int64) {
			continue
		}
		addr := fmt.Sprintf("127.0.0.1:%d", r[2].([]any)[1])
		for _, s := range all {
			if s.addr == addr {
				return s
			}
		}
	}
	return nil
}

// MoveSlot moves a slot, with its keys, from one node of a Cluster to another. meanwhile is called when half is done.
func MoveSlot(t testing.TB, all []*Server, slot int, from, to *Server, meanwhile func()) {
	t.Helper()
	id := func(s *Server) string { return s.Do("CLUSTER", "MYID").(string) }
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", id(from))
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", id(to))
	meanwhile()
	host, port, _ := strings.Cut(to.addr, ":")
	for _, key := range from.Do("CLUSTER", "GETKEYSINSLOT", slot, 1000).([]any) {
		from.Do("MIGRATE", host, port, key, 0, 5000)
	}
	meanwhile()
	for _, s := range all {
		if role := s.Do("ROLE").([]any)[0]; role == "master" {
			s.Do("CLUSTER", "SETSLOT", slot, "NODE", id(to))
		}
	}
}

// StartTLS starts one that speaks TLS, and nothing else, on a port of this machine. It is not waited for.
func StartTLS(t testing.TB, args ...string) *Server {
	t.Helper()
	port := freePort(t)
	s := &Server{t: t, Dir: folder(t), addr: "127.0.0.1:" + strconv.Itoa(port)}
	s.args = append([]string{"--dir", s.Dir, "--save", "", "--logfile", filepath.Join(s.Dir, "log"), "--port", "0",
		"--bind", "127.0.0.1", "--tls-port", strconv.Itoa(port)}, args...)
	s.Launch()
	t.Cleanup(s.Kill)
	for range 4000 {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			_ = c.Close()
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	return s
}
