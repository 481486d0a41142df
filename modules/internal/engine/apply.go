package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/spool"
)

// takeUp gives the ledger what an earlier process left in the spool. That has to happen before the ledger recovers,
// which settles those requests at nothing.
func (t *settler) takeUp(ctx context.Context) error {
	written := new(lines)
	if err := t.retryAside(ctx, written); err != nil {
		return fmt.Errorf("applying what was kept aside: %w", err)
	}
	return t.takeUpSpool(ctx, written)
}

// takeUpSpool gives the ledger what is in the spool.
func (t *settler) takeUpSpool(ctx context.Context, written *lines) error {
	found := t.spool.Len()
	for t.spool.Len() > 0 {
		if _, err := t.apply(ctx, written); err != nil {
			return fmt.Errorf("applying the settlements of the spool: %w", err)
		}
	}
	t.sumUp(written)
	if found > 0 {
		t.log.Info("the settlements of the spool are taken up", "settlements", found)
	}
	return nil
}

// lines counts the items of a taking up: many of them have no line each.
type lines struct{ items int }

// next reports whether one more item has a line of its own; without a count each has one.
func (l *lines) next() bool {
	if l == nil {
		return true
	}
	l.items++
	return l.items <= asideLines
}

// sumUp writes one line for the items that had none.
func (t *settler) sumUp(written *lines) {
	if more := written.items - asideLines; more > 0 {
		t.log.Warn("there were more of these items of the spool: `fareway gateway ledger spool list --all` has them",
			"more", more, "file", t.spool.Aside().Path())
	}
}

// retryAside gives the ledger again what it did not know before: perhaps its newer copy is back.
func (t *settler) retryAside(ctx context.Context, written *lines) error {
	for _, item := range t.spool.Aside().Items() {
		if item.Kind != spool.UnknownRequest || item.Decision != nil {
			continue
		}
		v := settleOrFree(ctx, t.store, item.Record)
		if v.away != nil {
			return v.away
		}
		if v.kind != "" {
			continue
		}
		err := recordDecision(ctx, t.store, t.spool.Aside(), &item, spool.Decision{ID: item.ID, Outcome: spool.Applied,
			Time: t.now(), Actor: ledger.ActorOf(ctx), Reason: "the ledger knows its request now"})
		if err != nil {
			return err
		}
		if written.next() {
			t.log.Info("a settlement that was kept aside is applied: the ledger knows its request now",
				"request_id", item.Record.Settlement.Request, "id", item.ID)
		}
	}
	t.countAside()
	return nil
}

// apply gives the store the oldest settlements of the spool, and returns how many those are. When it does not take all
// of them at the moment, they all stay: a repetition changes nothing.
func (t *settler) apply(ctx context.Context, written *lines) (int64, error) {
	batch := t.spool.Oldest(applyAtOnce)
	for i, v := range t.takeUpBatch(ctx, batch.Records) { // in their order, which is how an operator sees them
		if v.away == nil {
			v.away = t.carryOut(ctx, &batch.Records[i], v, written)
		}
		if v.away != nil {
			return 0, v.away
		}
		if account := batch.Records[i].Account; account != "" && v.kind == "" && t.noteCharged != nil {
			t.noteCharged(account)
		}
	}
	if err := t.spool.ReleaseBatch(batch); err != nil {
		t.log.Error("the settlements of the spool are applied, and will be again", "error", err)
	}
	return int64(len(batch.Records)), nil
}

// takeUpBatch gives the store settlements of the spool, those together that say what was held for their requests.
func (t *settler) takeUpBatch(ctx context.Context, records []spool.Record) []verdict {
	verdicts := make([]verdict, len(records))
	if t.courses == nil {
		var asking sync.WaitGroup // so that they share transactions
		for i := range records {
			asking.Go(func() { verdicts[i] = settleOrFree(ctx, t.store, &records[i]) })
		}
		asking.Wait()
		return verdicts
	}
	var courses []book.Course
	var indexes []int
	for i := range records {
		c, ok, err := live.CourseOf(&records[i])
		switch {
		case err != nil:
			verdicts[i] = verdict{kind: spool.Refused, why: err}
		case !ok:
			verdicts[i] = settleOrFree(ctx, t.store, &records[i])
		default:
			courses, indexes = append(courses, c), append(indexes, i)
		}
	}
	taken, err := live.TakeUp(ctx, t.courses, courses)
	for n, i := range indexes {
		if err != nil {
			verdicts[i].away = err
		} else {
			verdicts[i] = t.judgeTaken(ctx, &records[i], taken[n])
		}
	}
	return verdicts
}

// judgeTaken is what the store's taking up of a settlement means.
func (t *settler) judgeTaken(ctx context.Context, r *spool.Record, taken book.TakenUp) verdict {
	switch {
	case errors.Is(taken.Err, ledger.ErrNotFound):
		return verdict{kind: spool.UnknownRequest, why: errUnknownRequest}
	case taken.Err != nil:
		return verdict{kind: spool.Refused, why: taken.Err}
	}
	return addMissingReceipts(ctx, t.store, r, taken.Charge)
}

// refuse keeps aside what the store did not take up of a running gateway's requests, each with its line.
func (t *settler) refuse(c *book.Course, taken book.TakenUp) error {
	ctx, r := context.Background(), live.RecordOf(c)
	v := t.judgeTaken(ctx, &r, taken)
	if v.away != nil {
		return v.away
	}
	return t.carryOut(ctx, &r, v, nil)
}

// verdict is what the ledger says of a settlement of the spool.
type verdict struct {
	kind spool.Kind // "": it has it
	why  error      // what hinders it
	away error      // it says nothing: it is away
}

// carryOut keeps aside what cannot be applied. An error is that this is not done.
func (t *settler) carryOut(ctx context.Context, r *spool.Record, v verdict, written *lines) error {
	switch {
	case v.kind == "":
		return nil
	case v.kind == spool.Refused && r.Settlement.Free:
		t.log.Error("a settlement of the spool cannot be applied, and comes to nothing", "request_id", r.Settlement.Request,
			"error", v.why)
		return t.release(ctx, r)
	}
	item, fresh, err := t.spool.Aside().Keep(v.kind, v.why.Error(), *r, t.now())
	if err != nil {
		return err
	}
	if fresh {
		t.countAside()
		if written.next() {
			t.log.Error("a settlement of the spool cannot be applied and is kept aside; an operator has to decide: "+toDecide,
				"request_id", r.Settlement.Request, "id", item.ID, "file", t.spool.Aside().Path(), "error", v.why)
		}
	}
	if v.kind != spool.Refused {
		return nil
	}
	return t.release(ctx, r)
}

// release settles the request of a refused settlement as free: its hold must not stay.
func (t *settler) release(ctx context.Context, r *spool.Record) error {
	if _, err := t.store.Settle(ctx, asFree(r.Settlement)); errors.Is(err, ledger.ErrUnavailable) {
		return err
	}
	return nil
}

// settleOrFree gives the ledger a settlement of the spool that does not say what was held.
func settleOrFree(ctx context.Context, l requestSettler, r *spool.Record) verdict {
	c, err := l.Settle(ctx, r.Settlement)
	switch {
	case errors.Is(err, ledger.ErrUnavailable):
		return verdict{away: err}
	case errors.Is(err, ledger.ErrNotFound):
		// The request, or an attempt of it. What it does not know it does not settle as free either.
		_, freeErr := l.Settle(ctx, asFree(r.Settlement))
		switch {
		case errors.Is(freeErr, ledger.ErrUnavailable):
			return verdict{away: freeErr}
		case errors.Is(freeErr, ledger.ErrNotFound):
			return verdict{kind: spool.UnknownRequest, why: errUnknownRequest}
		}
		return verdict{kind: spool.Refused, why: err}
	case err != nil:
		return verdict{kind: spool.Refused, why: err}
	}
	return addMissingReceipts(ctx, l, r, c)
}

// addMissingReceipts is what it means that a settlement's request is on record at a charge, once what proves more is
// added.
func addMissingReceipts(ctx context.Context, l requestSettler, r *spool.Record, c ledger.Charge) verdict {
	c, err := addReceipts(ctx, l, r, c)
	if err != nil {
		return verdict{away: err}
	}
	if isShort(r, c) {
		return verdict{kind: spool.Differs, why: fmt.Errorf(
			"the request was settled before, at %d microcents; this settlement comes to %d", sumCharged(c), *r.Charge)}
	}
	return verdict{}
}

// errUnknownRequest is why such a settlement cannot be applied.
var errUnknownRequest = errors.New("the ledger does not know the request: its database is an older copy, perhaps")

// isShort reports whether the ledger has charged less than the settlement comes to.
func isShort(r *spool.Record, c ledger.Charge) bool {
	return r.Charge != nil && sumCharged(c) < *r.Charge
}

// sumCharged is what the ledger has taken a request to come to, whoever pays for it: the account, or the operator for
// what fair use leaves free and for what is over the hold (GAP-110).
func sumCharged(c ledger.Charge) int64 { return c.Microcents + c.Waived + c.Over }

// addReceipts gives the ledger the proven usage of a settlement's attempts when it settled their request at less
// before and waits for addReceipts, as after a crash. It returns the charge then; an error is that the ledger is away.
// What ended at a limit of the service is the operator's: no receipt knows of that.
func addReceipts(ctx context.Context, l requestSettler, r *spool.Record, c ledger.Charge) (ledger.Charge, error) {
	if !isShort(r, c) || !c.Pending || r.Settlement.ServiceLimit {
		return c, nil
	}
	for _, result := range r.Settlement.Results {
		if result.Usage == nil {
			continue
		}
		after, _, err := l.AddReceipt(ctx, result.Attempt, *result.Usage)
		switch {
		case errors.Is(err, ledger.ErrUnavailable):
			return c, err
		case err == nil:
			c = after
		}
	}
	return c, nil
}

// toDecide is the command that shows what is to be decided.
const toDecide = "`fareway gateway ledger spool list`"

func (t *settler) countAside() { t.metrics.setAside(t.spool.Aside().Undecided()) }
