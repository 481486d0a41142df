package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

const (
	// storeAskedEvery is how long an answer of the store holds, so that it costs nothing to ask often.
	storeAskedEvery = time.Second
	// storeTimeout is how long it may take to answer.
	storeTimeout = 2 * time.Second
)

// errLedgerAway is why a gateway is not ready whose ledger is away.
var errLedgerAway = errors.New("the ledger does not take operations: see the log, and the disk of the data folder " +
	"or the database")

// storeProbe asks the store whether it takes operations.
type storeProbe struct {
	ping func(context.Context) error
	now  func() time.Time

	mu    sync.Mutex // held while the store is asked: who comes meanwhile gets the same answer
	asked time.Time
	err   error
}

func (p *storeProbe) check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if age := p.now().Sub(p.asked); 0 <= age && age < storeAskedEvery {
		return p.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	p.err = p.ping(ctx)
	p.asked = p.now()
	return p.err
}

// Ready returns nil when a request would be taken now, and the reason otherwise. It waits for the ledger at most two
// seconds, and asks it at most once a second.
func (e *Engine) Ready() error {
	if err := e.life.ready(); err != nil {
		return err
	}
	if loss := e.store.Loss(); loss != nil {
		return fmt.Errorf("a part of the ledger is missing: %s; %s", loss, ledger.LossAdvice)
	}
	if g := e.Current(); g == nil || !slices.ContainsFunc(slices.Collect(maps.Keys(g.backends)), g.Ready) {
		return errors.New("no provider is ready")
	}
	if err := e.probe.check(); err != nil {
		return fmt.Errorf("%w: %w", errLedgerAway, err)
	}
	if away, _ := e.away(); away {
		return errLedgerAway // and it goes on being asked
	}
	return nil
}
