package sqlite

import (
	"context"
	"errors"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
)

// pool are connections that cannot write, for questions that are answered in a moment: nothing interrupts
// them, which would cost more than most of them do.
type pool struct {
	path    string
	free    chan *sqlite.Conn // nil is one to be opened
	timeout time.Duration

	once   sync.Once
	closed chan struct{}
}

func newPool(path string, size int, timeout time.Duration) *pool {
	p := &pool{path: path, free: make(chan *sqlite.Conn, size), timeout: timeout, closed: make(chan struct{})}
	for range size {
		p.free <- nil
	}
	return p
}

// acquire waits for a connection, at most its time-out.
func (p *pool) acquire(ctx context.Context) (*sqlite.Conn, error) {
	conn, err := p.wait(ctx)
	if err != nil || conn != nil {
		return conn, err
	}
	if conn, err = openReader(p.path, p.timeout); err != nil {
		p.free <- nil
		return nil, err
	}
	return conn, nil
}

func (p *pool) wait(ctx context.Context) (*sqlite.Conn, error) {
	switch {
	case p.isClosed():
		return nil, closed()
	case ctx.Err() != nil:
		return nil, gaveUp(ctx)
	}
	select {
	case conn := <-p.free:
		return conn, nil
	default:
	}
	timer := time.NewTimer(p.timeout)
	defer timer.Stop()
	select {
	case conn := <-p.free:
		return conn, nil
	case <-p.closed:
		return nil, closed()
	case <-ctx.Done():
		return nil, gaveUp(ctx)
	case <-timer.C:
		return nil, tooSlow(p.timeout)
	}
}

// release takes a connection back, with what became of the question. One that failed is opened anew for the next.
func (p *pool) release(conn *sqlite.Conn, err error) {
	if storeFailed(err) {
		_ = conn.Close() // whatever it says, the question has failed already
		conn = nil
	}
	p.free <- conn
}

// renew closes all connections, each once it is free. The next questions open them anew.
func (p *pool) renew() {
	for range cap(p.free) {
		if conn := <-p.free; conn != nil {
			_ = conn.Close() // it only read
		}
	}
	for range cap(p.free) {
		p.free <- nil
	}
}

func (p *pool) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// close waits for the connections that are in use.
func (p *pool) close() error {
	var errs []error
	p.once.Do(func() {
		close(p.closed)
		for range cap(p.free) {
			if conn := <-p.free; conn != nil {
				errs = append(errs, conn.Close())
			}
		}
	})
	return errors.Join(errs...)
}
