package engine

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/spool"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	// applyAtOnce is how many settlements of the spool are given to the ledger together: they share commits.
	applyAtOnce = 256
	// asideLines is how many of many items that are kept aside have a line of their own.
	asideLines = 5
)

// requestSettler is the part of the ledger that ends requests.
type requestSettler interface {
	Settle(ctx context.Context, s ledger.Settlement) (ledger.Charge, error)
	AddReceipt(ctx context.Context, attempt string, usage llm.Usage) (c ledger.Charge, applied bool, err error)
	RecordAct(ctx context.Context, action, account, subject string, after map[string]any) error
}

// courseTaker is the part of a store that takes up what is in the spool.
type courseTaker interface {
	TakeUp(ctx context.Context, courses []book.Course) ([]book.TakenUp, error)
}

// settler has the spool, into which requests end before the store takes them up, and brings into the store what an
// earlier process left there. What cannot be taken up it keeps aside.
type settler struct {
	store   requestSettler
	courses courseTaker // the store, where it takes up what was decided; nil where it decides itself, as a shared one
	spool   *spool.Spool
	metrics *Metrics
	log     *slog.Logger
	now     func() time.Time
	// noteCharged notes accounts that were charged by what an earlier process has left; nil: nobody asks.
	noteCharged func(account string)
}

// openSettler opens the spool at path.
func openSettler(path string, store requestSettler, m *Metrics, log *slog.Logger, o *Options) (*settler, error) {
	s, err := spool.Open(path, o.SpoolSize)
	if err != nil {
		return nil, err
	}
	if n := s.Torn(); n > 0 {
		log.Warn("the spool ends in a settlement that was not written to its end; its hold is released",
			"path", path, "bytes", n)
	}
	courses, _ := store.(courseTaker)
	t := &settler{store: store, courses: courses, spool: s, metrics: m, log: log, now: o.Now}
	if n := s.Aside().Undecided(); n > 0 {
		log.Error("what was in the spool could not be applied or read and is kept aside; an operator has to decide: "+
			toDecide, "undecided", n, "file", s.Aside().Path())
	}
	return t, nil
}

// bookTorn decides about what a power cut has left damaged of a spool that is synced behind what it acknowledges: it is
// named, on the audit trail, and an operator has nothing to decide. It was torn with what was not synced.
func (t *settler) bookTorn(ctx context.Context) error {
	for _, id := range t.spool.Aside().FoundDamaged() {
		item, err := t.spool.Aside().Find(id)
		if err != nil {
			return err
		}
		t.log.Warn("a power cut has taken settlements from the spool, as durability \"process\" lets it; it is booked "+
			"on the audit trail", "id", item.ID, "settlements", item.Damage.Lost, "requests", item.Damage.Requests)
		err = recordDecision(ctx, t.store, t.spool.Aside(), &item, spool.Decision{ID: item.ID, Outcome: spool.Discarded,
			Time: t.now(), Actor: ledger.ActorOf(ctx), Reason: "a power cut has taken it, as durability \"process\" lets it"})
		if err != nil {
			return err
		}
	}
	return nil
}

// asFree is the settlement of a request whose own settlement the ledger refused: the hold must not stay.
func asFree(s ledger.Settlement) ledger.Settlement {
	return ledger.Settlement{Request: s.Request, Status: http.StatusInternalServerError, Reason: "ledger", Free: true}
}
