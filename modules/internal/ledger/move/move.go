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
// all checkpoints of the old one, and its report has to say what the old one's did. Only then is the old ledger marked
// as moved, which ends its serving, and after that the new one as done, which begins it. Whoever is interrupted between
// these two has a ledger that nobody serves, and goes on. At no moment can both be served.
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

// Source is the old ledger, open so that nobody admits requests on it.
type Source interface {
	ledger.Books
	// MovedTables are all tables of the new store, in the order in which they are made.
	MovedTables() []Table
	// CountMoved counts the rows of a table, about.
	CountMoved(ctx context.Context, t Table) (int64, error)
	// ReadMoved reads the rows of a table behind a key, from the first on for nil.
	ReadMoved(ctx context.Context, t Table, after []any, each func(Row) error) error
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
	// FindMove reports whether the database has a move of this id, and whether it is done.
	FindMove(ctx context.Context, id string) (found, done bool, err error)
	// EndMove says that the move is done: from then on the database is served.
	EndMove(ctx context.Context, id string) error
}

// Options say how a ledger is moved.
type Options struct {
	From, To string // where it is and goes, for people, without what is secret
	// Progress is told how far a step is, of about how much.
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

// Run moves a ledger.
func Run(ctx context.Context, from Source, to Target, o Options) (done Done, err error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if o.Batch == 0 {
		o.Batch = 20_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &mover{from: from, to: to, o: o, rows: map[string]int64{}}
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
	from    Source
	to      Target
	o       Options
	mark    Mark
	had     map[string]Progress // by table
	resumed bool
	rows    map[string]int64
}

// kept are all checkpoints of the old ledger.
func (m *mover) kept(ctx context.Context) (all []ledger.Checkpoint, err error) {
	err = m.from.Checkpoints(ctx, func(c ledger.Checkpoint) error {
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
	r, err := m.from.VerifyAs(ctx, ledger.Verification{Progress: m.progress("verifying the old ledger")})
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
	anew := true
	switch before := m.mark.State; {
	case m.mark.ID == "":
		m.mark = Mark{ID: rand.Text(), Begun: m.o.Now()}
	case !m.mark.Done.IsZero():
		return fmt.Errorf("%w: the ledger has been moved already", ledger.ErrInvalid)
	case m.mark.Target != m.o.To:
		// Somewhere else, where nobody goes on.
		m.mark = Mark{ID: rand.Text(), Begun: m.o.Now()}
	default:
		before.Owners++ // this process
		anew = is != before
	}
	m.mark.Target = m.o.To
	found, _, err := m.to.FindMove(ctx, m.mark.ID)
	if err != nil {
		return err
	}
	// The mark knows the move before the target does, or nobody would go on with it; and until the target has what
	// belongs to this state of the ledger, it says of none that it is.
	m.mark.State = State{}
	if err := m.from.MarkMove(ctx, m.mark); err != nil {
		return err
	}
	if m.had, err = m.to.BeginMove(ctx, m.mark.ID, m.o.From, anew && found); err != nil {
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
	tables := m.from.MovedTables()
	for _, t := range tables {
		n, err := m.from.CountMoved(ctx, t)
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
	err := m.from.ReadMoved(ctx, t, so.After, func(r Row) error {
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
	tables := m.from.MovedTables()
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
		err := m.from.ReadMoved(ctx, t, nil, func(row Row) error {
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

// Finish is for a ledger that was moved, and of which the target was perhaps not told so.
func Finish(ctx context.Context, m Mark, to Target) error {
	found, done, err := to.FindMove(ctx, m.ID)
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("%w to %s at %s, and this database does not have it", ErrMoved, m.Target,
			m.Done.UTC().Format(time.RFC3339))
	case done:
		return nil
	}
	return to.EndMove(ctx, m.ID)
}

// ErrMoved: a ledger has gone elsewhere, and is not served here any more.
var ErrMoved = errors.New("the ledger was moved")

// Refuse is ErrMoved, with what to do, for a mark that says so.
func (m Mark) Refuse() error {
	if m.Done.IsZero() {
		return nil
	}
	return fmt.Errorf("%w to %s at %s, and goes on there: put that into the store block of the configuration; if it was "+
		"moved in error and nothing was served there since, `fareway gateway ledger move --undo` brings it back", ErrMoved,
		m.Target, m.Done.UTC().Format(time.RFC3339))
}
