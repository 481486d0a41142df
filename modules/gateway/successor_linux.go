package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
)

// This is the side of a process that takes another one's place; Upgrade is the other's. They speak over a socket, a
// line each:
//
//	it has done all that it can without the ledger   prepared  ->
//	                                                           <-  yours   the ledger is being handed over
//	its listeners take connections                   serving   ->
//	it cannot                                        failed TEXT  ->
//
// Should the other process die, it goes on: the ledger is free then.

// successionVariable names the descriptor of that socket to a process that is started to take another one's place.
const successionVariable = "FAREWAY_SUCCESSION"

const (
	saysPrepared = "prepared"
	saysYours    = "yours"
	saysServing  = "serving"
	saysFailed   = "failed "
)

// predecessor is the process whose place this one takes. A nil one is none.
type predecessor struct {
	conn net.Conn
	told sync.Once
}

// findPredecessor finds the process before this one, nil where it was not started by one.
var findPredecessor = sync.OnceValues(func() (*predecessor, error) {
	if err := takeSockets(); err != nil {
		return nil, err
	}
	value := os.Getenv(successionVariable)
	if value == "" {
		return nil, nil
	}
	if err := os.Unsetenv(successionVariable); err != nil {
		return nil, err
	}
	fd, err := strconv.Atoi(value)
	if err != nil {
		return nil, fmt.Errorf("finding the process before this one by %s=%q: %w", successionVariable, value, err)
	}
	f := os.NewFile(uintptr(fd), successionVariable)
	conn, err := net.FileConn(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("finding the process before this one by %s=%q: %w", successionVariable, value, err)
	}
	return &predecessor{conn: conn}, nil
})

// awaitLedger says that this process is prepared, and waits until the other one lets go of its ledger.
func (p *predecessor) awaitLedger() error {
	if _, err := fmt.Fprintln(p.conn, saysPrepared); err != nil {
		return nil //nolint:nilerr // it is gone: the ledger's lock says whether it is free
	}
	line, err := bufio.NewReader(p.conn).ReadString('\n')
	if err != nil || strings.TrimSpace(line) == saysYours {
		return nil //nolint:nilerr // as above
	}
	return fmt.Errorf("taking the place of the process before this one: it said %q", line)
}

// fail says why this process cannot serve.
func (p *predecessor) fail(err error) {
	if p != nil {
		p.tell(saysFailed + strconv.Quote(err.Error()))
	}
}

// tell says how the start has ended, once.
func (p *predecessor) tell(line string) {
	p.told.Do(func() {
		_, _ = fmt.Fprintln(p.conn, line) // it may be gone
		_ = p.conn.Close()
	})
}

// serve says that this process serves.
func (p *predecessor) serve() {
	if p != nil {
		p.tell(saysServing)
	}
}
