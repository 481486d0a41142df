// Package move takes a ledger from one store to another, row by row: the tables of the new one are made of queries of
// the old one. It is for a command, which has the old ledger open so that nobody else admits requests on it.
//
// # What survives an interruption
//
// The old store has a mark of the move, the new one that there is a move and how far each table has come, which is
// committed with the rows. A target that is not done is served by nobody. Who is started again goes on where the last
// one has ended, if nobody has opened the old ledger in between, and else begins anew: the rows that are there are
// removed first.
//
// # When it is done
//
// Every row of the new store is compared with the rows that it should be made of: both sides are read once more, and a
// hash of each row is added up, table by table. Then the new store is verified as any ledger is (package audit), with
// all checkpoints of the old one, and its report has to say what the old one's did. That it is whole is committed
// there, on the standby, too, if there is a synchronous one. Only then is the old ledger marked as moved, which ends
// its serving, and after that the new one as done, which begins it. Whoever is interrupted between these two has a
// ledger that nobody serves, and goes on: by comparing and verifying once more, for the new one may have been put back
// meanwhile, by a failover or a restore. At no moment can both be served.
package move

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Table is a table of the new store as queries of the old one make it.
type Table struct {
	Name    string
	Columns []string
	// Keys is how many values of a row are its key, in whose order rows are read. It is 0 for a table that is read and
	// written as a whole, each time anew.
	Keys int
}

// Row is a row of a Table: nil, int64, float64, string or []byte. Key are the values that it is found behind.
type Row struct{ Key, Values []any }

// Mark is what the old ledger says of its move.
type Mark struct {
	ID     string // "": there is none
	Target string // without what is secret of it
	Begun  time.Time
	Done   time.Time // zero: it is not
	State
}

// State is by what a move sees that nobody has opened the ledger since.
type State struct {
	Owners int64 // processes that ever opened it
	ledger.Extent
}

// Rows are the rows of the old ledger, which nobody changes meanwhile.
type Rows interface {
	ledger.Books
	// MovedTables are all tables of the new store, in the order in which they are made.
	MovedTables() []Table
	// CountMoved counts the rows of a table, about.
	CountMoved(ctx context.Context, t Table) (int64, error)
	// ReadMoved reads the rows of a table behind a key, from the first on for nil.
	ReadMoved(ctx context.Context, t Table, after []any, each func(Row) error) error
}

// Source is the old ledger, open so that nobody admits requests on it.
type Source interface {
	Rows
	// ReadMove reads the mark of the move, MarkMove writes it, durably: the only one that there is.
	ReadMove(ctx context.Context) (Mark, error)
	MarkMove(ctx context.Context, m Mark) error
	// MoveState is what the ledger has now.
	MoveState(ctx context.Context) (State, error)
}

// Progress is how far a table is that the target has.
type Progress struct {
	After []any // the key of its last row
	Rows  int64
}

// Stage is how far a move is, by what the target says; "" where it has no such move.
type Stage string

const (
	Copying Stage = "copying"
	Whole   Stage = "whole"  // all rows are there, and were compared and verified
	Ended   Stage = "done"   // it is served
	Undone  Stage = "undone" // the ledger is served by the old store again, and never here
)

// Target is the new store's database.
type Target interface {
	// BeginMove begins a move, or goes on with the one of this id; with anew all that this has brought is removed first.
	// It is an error where the database has something else.
	BeginMove(ctx context.Context, id, source string, anew bool) (map[string]Progress, error)
	// AddMoved adds rows of a table, of which the last has the key after, and notes that in the same transaction. Of a
	// table without keys they are all rows.
	AddMoved(ctx context.Context, id string, t Table, rows [][]any, so Progress) error
	// Convert makes of a row's values those that its columns take.
	Convert(ctx context.Context, t Table, values []any) error
	// ReadAdded reads all rows of a table, as Convert makes them.
	ReadAdded(ctx context.Context, t Table, each func(values []any) error) error
	// SettleMove is for what is better done once all rows are there.
	SettleMove(ctx context.Context) error
	// Verify verifies it as a ledger.
	Verify(ctx context.Context, how ledger.Verification) (ledger.Report, error)
	// FindMove finds the move of this id. It changes nothing, and the database need not have any tables.
	FindMove(ctx context.Context, id string) (Stage, error)
	// MarkWhole says that all rows are there, durably, and EndMove that the move is done: from then on the database is
	// served.
	MarkWhole(ctx context.Context, id string) error
	EndMove(ctx context.Context, id string) error
}

// Options say how a ledger is moved.
type Options struct {
	From, To string // where it is and goes, for people, without what is secret
	// Progress is told how far a step is, of about how much; of 0 where nobody knows.
	Progress func(step string, done, of int64)
	// Batch is how many rows a transaction has. Default: 20,000.
	Batch int
	Now   func() time.Time
}

// Done is what came of a move.
type Done struct {
	ID      string
	Resumed bool             // rows of an earlier run were gone on with
	Rows    map[string]int64 // by table
	Report  ledger.Report    // of the new store
}

func (o *Options) fill() {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if o.Batch == 0 {
		o.Batch = 20_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Run moves a ledger.
func Run(ctx context.Context, from Source, to Target, o Options) (done Done, err error) {
	o.fill()
	m := &mover{Rows: from, from: from, to: to, o: o, rows: map[string]int64{}}
	was, err := m.verifySource(ctx)
	if err != nil {
		return done, err
	}
	if err := m.begin(ctx); err != nil {
		return done, err
	}
	if err := m.copyAll(ctx); err != nil {
		return done, fmt.Errorf("%w; what was moved is kept: start the move again, and it goes on", err)
	}
	if err := to.SettleMove(ctx); err != nil {
		return done, err
	}
	if done.Report, err = m.verifyTarget(ctx, was); err != nil {
		return done, err
	}
	if err := to.MarkWhole(ctx, m.mark.ID); err != nil {
		return done, fmt.Errorf("the new ledger is whole, and could not be marked so: %w; start the move again", err)
	}
	m.mark.Done = o.Now()
	if err := from.MarkMove(ctx, m.mark); err != nil {
		return done, fmt.Errorf("marking the old ledger as moved: %w", err)
	}
	if err := to.EndMove(ctx, m.mark.ID); err != nil {
		return done, fmt.Errorf("the new ledger is whole, and could not be opened to gateways: %w; start the move again, "+
			"which does that", err)
	}
	done.ID, done.Resumed, done.Rows = m.mark.ID, m.resumed, m.rows
	return done, nil
}

type mover struct {
	Rows
	from    Source // nil for a ledger that was moved, which is only read
	to      Target
	o       Options
	mark    Mark
	had     map[string]Progress // by table
	resumed bool
	rows    map[string]int64
}

// kept are all checkpoints of the old ledger.
func (m *mover) kept(ctx context.Context) (all []ledger.Checkpoint, err error) {
	err = m.Checkpoints(ctx, func(c ledger.Checkpoint) error {
		all = append(all, c)
		return nil
	})
	return all, err
}

func (m *mover) progress(step string) func(done, of int64) {
	return func(done, of int64) { m.o.Progress(step, done, of) }
}

// verifySource verifies the old ledger: what is wrong in it would be wrong in the new one, and is found before anything
// is written.
func (m *mover) verifySource(ctx context.Context) (ledger.Report, error) {
	r, err := m.VerifyAs(ctx, ledger.Verification{Progress: m.progress("verifying the old ledger")})
	switch {
	case err != nil:
		return r, fmt.Errorf("verifying the old ledger: %w", err)
	case !r.OK:
		return r, fmt.Errorf("%w: the old ledger does not agree at %s: %s; nothing was moved: restore a backup that is "+
			"clean, and look at `fareway gateway ledger verify`", ledger.ErrInvalid, r.Entry, r.Problem)
	case r.Holds > 0:
		return r, fmt.Errorf("%w: %d requests hold credits on the old ledger; start its gateway once, which releases what "+
			"dead processes held, and stop it", ledger.ErrInvalid, r.Holds)
	}
	return r, nil
}

// begin marks both sides, and finds out whether an earlier run is gone on with.
func (m *mover) begin(ctx context.Context) (err error) {
	is, err := m.from.MoveState(ctx)
	if err != nil {
		return err
	}
	was, err := m.from.ReadMove(ctx)
	if err != nil {
		return err
	}
	m.mark = was
	var found Stage
	if was.ID != "" {
		if found, err = m.to.FindMove(ctx, was.ID); err != nil {
			return err
		}
	}
	anew := true
	switch before := m.mark.State; {
	case m.mark.ID == "":
		m.mark = Mark{ID: rand.Text(), Begun: m.o.Now()}
	case !m.mark.Done.IsZero():
		return fmt.Errorf("%w: the ledger has been moved already", ledger.ErrInvalid)
	case m.mark.Target != m.o.To && found == "":
		// Somewhere else, where nobody goes on. What has the move is the same place by another name.
		m.mark = Mark{ID: rand.Text(), Begun: m.o.Now()}
	default:
		before.Owners++ // this process
		anew = is != before
	}
	m.mark.Target = m.o.To
	// The mark knows the move before the target does, or nobody would go on with it; and until the target has what
	// belongs to this state of the ledger, it says of none that it is.
	m.mark.State = State{}
	if err := m.from.MarkMove(ctx, m.mark); err != nil {
		return err
	}
	if m.had, err = m.to.BeginMove(ctx, m.mark.ID, m.o.From, anew && found != ""); err != nil {
		if errors.Is(err, ledger.ErrExists) { // it has something else
			err = errors.Join(err, m.from.MarkMove(ctx, was))
		}
		return err
	}
	m.resumed = len(m.had) > 0
	m.mark.State = is
	return m.from.MarkMove(ctx, m.mark)
}

// copyAll copies what the target does not have.
func (m *mover) copyAll(ctx context.Context) error {
	var done, of int64
	tables := m.MovedTables()
	for _, t := range tables {
		m.o.Progress("counting "+t.Name, 0, 0)
		n, err := m.CountMoved(ctx, t)
		if err != nil {
			return err
		}
		of += n
	}
	for _, t := range tables {
		so := m.had[t.Name]
		if t.Keys == 0 {
			so = Progress{}
		}
		done += so.Rows
		before := done
		err := m.copyTable(ctx, t, &so, func(rows int64) {
			done = before + rows
			m.o.Progress("moving", done, max(done, of))
		})
		if err != nil {
			return fmt.Errorf("moving %s: %w", t.Name, err)
		}
		m.rows[t.Name] = so.Rows
	}
	return nil
}

// copyTable copies the rows behind what the target has. A batch ends between two keys.
func (m *mover) copyTable(ctx context.Context, t Table, so *Progress, tell func(rows int64)) error {
	var rows [][]any
	had := so.Rows
	flush := func() error {
		if err := m.to.AddMoved(ctx, m.mark.ID, t, rows, *so); err != nil {
			return err
		}
		tell(so.Rows - had)
		rows = rows[:0]
		return nil
	}
	err := m.ReadMoved(ctx, t, so.After, func(r Row) error {
		if t.Keys > 0 && len(rows) >= m.o.Batch && !slices.Equal(r.Key, so.After) {
			if err := flush(); err != nil {
				return err
			}
		}
		if err := m.to.Convert(ctx, t, r.Values); err != nil {
			return fmt.Errorf("the row behind %v: %w", so.After, err)
		}
		rows = append(rows, r.Values)
		so.After, so.Rows = r.Key, so.Rows+1
		return nil
	})
	if err != nil || len(rows) == 0 && t.Keys > 0 {
		return err
	}
	return flush()
}

// verifyTarget compares each row, and verifies the new store as a ledger.
func (m *mover) verifyTarget(ctx context.Context, was ledger.Report) (r ledger.Report, err error) {
	tables := m.MovedTables()
	var done, of int64
	for _, n := range m.rows {
		of += 2 * n
	}
	for _, t := range tables {
		from, to := newSum(), newSum()
		tell := func() {
			if done++; done%1000 == 0 {
				m.o.Progress("comparing", done, max(done, of))
			}
		}
		err := m.ReadMoved(ctx, t, nil, func(row Row) error {
			tell()
			if err := m.to.Convert(ctx, t, row.Values); err != nil {
				return err
			}
			from.add(row.Values)
			return nil
		})
		if err == nil {
			err = m.to.ReadAdded(ctx, t, func(values []any) error {
				tell()
				to.add(values)
				return nil
			})
		}
		if err != nil {
			return r, fmt.Errorf("comparing %s: %w", t.Name, err)
		}
		if *from != *to {
			return r, fmt.Errorf("%w: comparing %s: the old ledger has %s and the new one %s: somebody has written to one of "+
				"them; the old one is as it was: make an empty database, and move into that", ledger.ErrInvalid, t.Name, from, to)
		}
	}
	kept, err := m.kept(ctx)
	if err != nil {
		return r, err
	}
	r, err = m.to.Verify(ctx, ledger.Verification{Kept: kept, Progress: m.progress("verifying the new ledger")})
	switch {
	case err != nil:
		return r, fmt.Errorf("verifying the new ledger: %w", err)
	case !r.OK:
		return r, fmt.Errorf("%w: the new ledger does not agree at %s: %s; the old one is as it was", ledger.ErrInvalid,
			r.Entry, r.Problem)
	}
	if has, had := figures(r), figures(was); !maps.Equal(has, had) {
		return r, fmt.Errorf("%w: the new ledger has %v, and the old one %v; the old one is as it was", ledger.ErrInvalid,
			has, had)
	}
	return r, nil
}

// figures are what a report says of how much there is.
func figures(r ledger.Report) map[string]int64 {
	f := map[string]int64{"accounts": r.Accounts, "entries": r.Entries, "requests": r.Requests, "holds": r.Holds,
		"pending": r.Pending, "checkpoints": r.Checkpoints}
	for book, microcents := range r.Sums {
		if microcents != 0 {
			f["microcents of "+book] = microcents
		}
	}
	return f
}

// sum is of hashes of rows, in any order.
type sum struct {
	rows  int64
	total [4]uint64
}

func newSum() *sum { return &sum{} }

func (s *sum) String() string {
	var b []byte
	for _, word := range s.total {
		b = binary.BigEndian.AppendUint64(b, word)
	}
	return fmt.Sprintf("%d rows (%s)", s.rows, hex.EncodeToString(b)[:16])
}

func (s *sum) add(values []any) {
	b := make([]byte, 0, 256)
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			b = append(b, 0)
		case int64:
			b = binary.BigEndian.AppendUint64(append(b, 1), uint64(v))
		case bool:
			b = append(b, 2, 0)
			if v {
				b[len(b)-1] = 1
			}
		case float64:
			b = binary.BigEndian.AppendUint64(append(b, 3), math.Float64bits(v))
		case string:
			b = append(binary.BigEndian.AppendUint64(append(b, 4), uint64(len(v))), v...)
		case []byte:
			b = append(binary.BigEndian.AppendUint64(append(b, 5), uint64(len(v))), v...)
		case time.Time:
			b = binary.BigEndian.AppendUint64(append(b, 6), uint64(v.UnixMicro()))
		default:
			b = fmt.Appendf(append(b, 7), "%T %v", v, v)
		}
	}
	hash := sha256.Sum256(b)
	carry := uint64(0)
	for i := 3; i >= 0; i-- {
		s.total[i], carry = bits.Add64(s.total[i], binary.BigEndian.Uint64(hash[8*i:]), carry)
	}
	s.rows++
}

// Finish is for a ledger that was moved, as its mark says, and of which the target was perhaps not told so. Before it
// is, its rows are compared and verified once more: what was whole when the old ledger was marked may have been put
// back since. It reports whether there was something to do.
func Finish(ctx context.Context, mark Mark, from Rows, to Target, o Options) (done Done, finished bool, err error) {
	o.fill()
	moved := fmt.Sprintf("%s to %s at %s", ErrMoved, mark.Target, mark.Done.UTC().Format(time.RFC3339))
	switch stage, err := to.FindMove(ctx, mark.ID); {
	case err != nil:
		return done, false, err
	case stage == "":
		return done, false, fmt.Errorf("%w to %s at %s, and this database does not have it", ErrMoved, mark.Target,
			mark.Done.UTC().Format(time.RFC3339))
	case stage == Ended:
		return done, false, nil
	case stage == Undone:
		return done, false, fmt.Errorf("%w: %s, and this database was told that it is brought back: finish that with "+
			"`fareway gateway ledger move --undo --to DSN`, and move it into an empty database", ledger.ErrInvalid, moved)
	}
	m := &mover{Rows: from, to: to, o: o, mark: mark, rows: map[string]int64{}}
	was, err := m.verifySource(ctx)
	if err != nil {
		return done, false, err
	}
	if done.Report, err = m.verifyTarget(ctx, was); err != nil {
		return done, false, fmt.Errorf("%s, and the new ledger, which was whole then, cannot be served: %w; if that "+
			"database was put back to an earlier state (a failover, a restore), bring the old ledger back with `fareway "+
			"gateway ledger move --undo --to DSN`, and move it into an empty database", moved, err)
	}
	if err := to.EndMove(ctx, mark.ID); err != nil {
		return done, false, err
	}
	done.ID, done.Resumed = mark.ID, true
	return done, true, nil
}

// ErrMoved: a ledger has gone elsewhere, and is not served here any more.
var ErrMoved = errors.New("the ledger was moved")

// Refuse is ErrMoved, with what to do, for a mark that says so.
func (m Mark) Refuse() error {
	if m.Done.IsZero() {
		return nil
	}
	return fmt.Errorf("%w to %s at %s, and goes on there: put that into the store block of the configuration; if it was "+
		"moved in error and nothing was served there since, `fareway gateway ledger move --undo --to DSN` brings it back",
		ErrMoved, m.Target, m.Done.UTC().Format(time.RFC3339))
}
