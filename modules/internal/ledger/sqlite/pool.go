package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// pool are connections that cannot write, for questions that are answered in a moment: nothing interrupts
// them, which would cost more than most of them do.
type pool struct {
	free     chan *sqlite.Conn
	size     int
	patience time.Duration

	once   sync.Once
	closed chan struct{}
}

func newPool(path string, size int, patience time.Duration) (*pool, error) {
	p := &pool{free: make(chan *sqlite.Conn, size), patience: patience, closed: make(chan struct{})}
	for range size {
		conn, err := openReader(path, patience)
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.free <- conn
		p.size++
	}
	return p, nil
}

// take waits for a connection, at most the pool's patience.
func (p *pool) take(ctx context.Context) (*sqlite.Conn, error) {
	switch {
	case p.isClosed():
		return nil, fmt.Errorf("%w: it is closed", ledger.ErrUnavailable)
	case ctx.Err() != nil:
		return nil, gaveUp(ctx)
	}
	select {
	case conn := <-p.free:
		return conn, nil
	default:
	}
	timer := time.NewTimer(p.patience)
	defer timer.Stop()
	select {
	case conn := <-p.free:
		return conn, nil
	case <-p.closed:
		return nil, fmt.Errorf("%w: it is closed", ledger.ErrUnavailable)
	case <-ctx.Done():
		return nil, gaveUp(ctx)
	case <-timer.C:
		return nil, fmt.Errorf("waiting for the ledger: %w: its disk did not answer within %s", ledger.ErrUnavailable, p.patience)
	}
}

func (p *pool) put(conn *sqlite.Conn) { p.free <- conn }

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
		for range p.size {
			errs = append(errs, (<-p.free).Close())
		}
	})
	return errors.Join(errs...)
}
