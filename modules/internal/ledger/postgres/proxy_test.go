package postgres_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
)

// proxy is a network between stores and a server, which is cut behind commits, or altogether.
type proxy struct {
	dir, server string
	listener    net.Listener
	cuts        atomic.Int64  // commits whose answer is still to be lost, with the connection
	last        atomic.Bool   // the network goes away with the last of them
	away        atomic.Bool   // nothing is let through
	refused     atomic.Int64  // connections while it was away
	lost        chan struct{} // has an element for each answer that was lost
	running     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// startProxy starts one before a server, and returns the URL of a database behind it.
func startProxy(t testing.TB, to *postgrestest.Server, database string) (*proxy, string) {
	dir, err := os.MkdirTemp("", "fareway-px") //nolint:usetesting // sockets have short names
	require.NoError(t, err)
	p := &proxy{dir: dir, server: filepath.Join(to.Dir(), ".s.PGSQL.5432"), lost: make(chan struct{}, 100),
		conns: map[net.Conn]bool{}}
	p.listener, err = net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	require.NoError(t, err)
	p.running.Go(p.accept)
	t.Cleanup(func() {
		require.NoError(t, p.listener.Close())
		p.hangUp()
		p.running.Wait()
		require.NoError(t, os.RemoveAll(dir))
	})
	return p, "postgres://fareway@/" + database + "?host=" + dir
}

// cut loses the answers of the next commits, and with away the network behind the last of them.
func (p *proxy) cut(commits int64, away bool) {
	p.last.Store(away)
	p.cuts.Store(commits)
}

// leave ends all connections and refuses others, until back.
func (p *proxy) leave() {
	p.away.Store(true)
	p.hangUp()
}

func (p *proxy) back() { p.away.Store(false) }

func (p *proxy) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close() // it is cut
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if p.away.Load() {
			p.refused.Add(1)
			_ = client.Close()
			continue
		}
		behind, err := net.Dial("unix", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[behind] = true, true
		p.mu.Unlock()
		if p.away.Load() { // since
			p.hangUp()
		}
		p.running.Go(func() { p.pass(behind, client, false) })
		p.running.Go(func() { p.pass(client, behind, true) })
	}
}

// committed is how a server answers a commit (CommandComplete).
var committed = []byte("C\x00\x00\x00\x0bCOMMIT\x00")

func (p *proxy) pass(to, from net.Conn, answers bool) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range []net.Conn{to, from} {
			_ = c.Close()
			delete(p.conns, c)
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if answers && bytes.Contains(buffer[:n], committed) && p.cuts.Load() > 0 {
			left := p.cuts.Add(-1)
			if left >= 0 {
				if left == 0 && p.last.Load() {
					p.leave()
				}
				p.lost <- struct{}{}
				return
			}
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}
