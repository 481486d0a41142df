package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"sync/atomic"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// extent says how far a ledger has come: how many movements of money and acts of operators it has, and the sum of the
// heads of all their chains, modulo 2^256, in which a new head takes the place of the old one.
type extent struct {
	entries, acts int64
	heads         [4]uint64 // the lowest first
}

// move puts a new head in place of the one before it, the zero one where the chain begins.
func (e *extent) move(before, after ledger.Digest) {
	var carry, borrow uint64
	for i := range e.heads {
		e.heads[i], borrow = bits.Sub64(e.heads[i], binary.LittleEndian.Uint64(before[8*i:]), borrow)
		e.heads[i], carry = bits.Add64(e.heads[i], binary.LittleEndian.Uint64(after[8*i:]), carry)
	}
}

// plus is e and what was moved since.
func (e extent) plus(moved extent) extent {
	e.entries += moved.entries
	e.acts += moved.acts
	var carry uint64
	for i := range e.heads {
		e.heads[i], carry = bits.Add64(e.heads[i], moved.heads[i], carry)
	}
	return e
}

// readExtent reads how far the ledger has come. It reads the head of every account.
func readExtent(conn *sqlite.Conn) (e extent, err error) {
	err = run(conn, `SELECT coalesce((SELECT max(n) FROM entries), 0), coalesce((SELECT max(n) FROM audit), 0)`,
		to(&e.entries, &e.acts))
	if err == nil {
		err = run(conn, `SELECT head FROM balances UNION ALL SELECT trail FROM accounts UNION ALL SELECT trail FROM meta`,
			func(row *sqlite.Stmt) error {
				e.move(ledger.Digest{}, columnHash(row, 0))
				return nil
			})
	}
	if err != nil {
		return e, fmt.Errorf("reading how far the ledger has come: %w", failure(err))
	}
	return e, nil
}

// The chains that have grown since, each by the link of its first new row and the hash of its last.
const (
	grownEntries = `SELECT f.prev, l.hash FROM (SELECT min(n) AS first, max(n) AS last FROM entries WHERE n > ?
		GROUP BY account) AS grown CROSS JOIN entries AS f ON f.n = grown.first CROSS JOIN entries AS l ON l.n = grown.last`
	grownActs = `SELECT f.prev, l.hash FROM (SELECT min(n) AS first, max(n) AS last FROM audit WHERE n > ?
		GROUP BY account) AS grown CROSS JOIN audit AS f ON f.n = grown.first CROSS JOIN audit AS l ON l.n = grown.last`
)

// missing compares a ledger, which has come as far as has, with what was seen of it: nil where it has all of that.
func missing(conn *sqlite.Conn, has, seen extent) (*ledger.Loss, error) {
	loss := &ledger.Loss{HasEntries: has.entries, SeenEntries: seen.entries, HasActs: has.acts, SeenActs: seen.acts}
	if has.entries < seen.entries || has.acts < seen.acts {
		return loss, nil
	}
	back := func(row *sqlite.Stmt) error {
		has.move(columnHash(row, 1), columnHash(row, 0))
		return nil
	}
	if err := run(conn, grownEntries, back, seen.entries); err != nil {
		return nil, failure(err)
	}
	if err := run(conn, grownActs, back, seen.acts); err != nil {
		return nil, failure(err)
	}
	if has.heads == seen.heads {
		return nil, nil
	}
	return loss, nil
}

// A witness has two slots, which are written in turn, each in a page of its own, so that one of them is whole
// whatever happens. A slot is in big-endian numbers: magic, number (the higher one holds), entries, acts, heads, and
// the SHA-256 of all that.
const (
	witnessMagic  = "fwwitns1"
	witnessSigned = len(witnessMagic) + 3*8 + 4*8
	witnessSlot   = 4096
	witnessSize   = 2 * witnessSlot
)

// witnessPath is where the witness of a ledger is.
func witnessPath(database string) string { return database + ".witness" }

// witness is the file beside the database that says how far that had come (GAP-133). It is written behind each commit
// and not synced: so it is never ahead of the database, and it is behind after a power cut at the worst.
type witness struct {
	file   *os.File
	number uint64 // of the slot that holds
}

// errNoWitness: there is no witness, or none that can be read.
var errNoWitness = errors.New("there is no witness beside the ledger")

// openWitness opens the witness of a database for writing, and makes it where there is none: errNoWitness then, beside
// a witness that can be used.
func openWitness(database string) (*witness, extent, error) {
	f, err := os.OpenFile(witnessPath(database), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, extent{}, fmt.Errorf("opening the ledger's witness: %w", err)
	}
	w := &witness{file: f}
	seen, number, err := parseWitness(f)
	if w.number = number; err == nil || errors.Is(err, errNoWitness) {
		return w, seen, err
	}
	return nil, extent{}, errors.Join(fmt.Errorf("reading the ledger's witness: %w", err), f.Close())
}

// readWitness reads the witness of a database, which may be written meanwhile; errNoWitness where there is none.
func readWitness(database string) (*extent, error) {
	f, err := os.Open(witnessPath(database))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoWitness
	}
	if err != nil {
		return nil, fmt.Errorf("opening the ledger's witness: %w", err)
	}
	seen, _, err := parseWitness(f)
	return &seen, errors.Join(err, f.Close())
}

func parseWitness(r io.ReaderAt) (seen extent, number uint64, err error) {
	for at := int64(0); at < witnessSize; at += witnessSlot {
		var b [witnessSigned + sha256.Size]byte
		if _, err := r.ReadAt(b[:], at); err != nil && !errors.Is(err, io.EOF) {
			return extent{}, 0, err
		}
		signed := b[:witnessSigned]
		if string(b[:len(witnessMagic)]) != witnessMagic || sha256.Sum256(signed) != [sha256.Size]byte(b[witnessSigned:]) {
			continue
		}
		var n [7]uint64
		for i := range n {
			n[i] = binary.BigEndian.Uint64(signed[len(witnessMagic)+8*i:])
		}
		if n[0] > number {
			number = n[0]
			seen = extent{entries: int64(n[1]), acts: int64(n[2]), heads: [4]uint64(n[3:])}
		}
	}
	if number == 0 {
		return extent{}, 0, errNoWitness
	}
	return seen, number, nil
}

// writeExtent says how far the ledger has come.
func (w *witness) writeExtent(e extent) error {
	w.number++
	b := append(make([]byte, 0, witnessSigned+sha256.Size), witnessMagic...)
	for _, n := range append([]uint64{w.number, uint64(e.entries), uint64(e.acts)}, e.heads[:]...) {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	sum := sha256.Sum256(b)
	if _, err := w.file.WriteAt(append(b, sum[:]...), int64(w.number%2)*witnessSlot); err != nil {
		return fmt.Errorf("writing the ledger's witness: %w", err)
	}
	return nil
}

// progress follows how far the ledger comes. But for lost it is the writer's.
type progress struct {
	has     extent // as committed
	witness *witness
	silent  bool // the witness could not be written, which was said
	// lost is what the ledger does not have of what was seen; nil: nothing. While it is set the witness stays as it is,
	// so that it knows the ledger that is missing when that is put back.
	lost atomic.Pointer[ledger.Loss]
}

func (p *progress) close() error {
	if p.witness == nil {
		return nil
	}
	return p.witness.file.Close()
}

// beginWitness begins to follow how far the ledger comes, behind the first commit of this process: what a dead one
// left in the log is on the disk then, and no power cut can take what the witness is told.
func (d *database) beginWitness() error {
	has, err := readExtent(d.conn)
	if err != nil {
		return err
	}
	w, seen, err := openWitness(d.opts.Path)
	if err != nil && !errors.Is(err, errNoWitness) {
		return err
	}
	d.progress.has, d.progress.witness = has, w
	if err != nil {
		seen = has
		if has != (extent{}) {
			d.opts.Logger.Warn("there was no witness beside the ledger, as where it was copied without one or an older "+
				"fareway kept it: whether its newest part is missing could not be seen; there is one from now on",
				"witness", witnessPath(d.opts.Path), "entries", has.entries, "acts", has.acts)
		}
	}
	damage, err := undecidedDamage(d.opts.Path)
	if err != nil {
		return err
	}
	if err := d.compare(has, seen, damage); err != nil {
		return err
	}
	d.testify()
	return nil
}

// readExtent reads anew how far the ledger has come: it was opened anew, or another program has written to it.
func (d *database) readExtent() error {
	has, err := readExtent(d.conn)
	if err != nil {
		return err
	}
	err = d.compare(has, d.progress.has, nil)
	d.progress.has = has
	return err
}

// compare looks whether the ledger has what was seen of it, and whether its log is damaged.
func (d *database) compare(has, seen extent, damage *ledger.LogDamage) error {
	loss, err := missing(d.conn, has, seen)
	if loss = damaged(loss, has, damage); err != nil || loss == nil || d.progress.lost.Load() != nil {
		return err
	}
	d.progress.lost.Store(loss)
	d.opts.Logger.Error("a part of the ledger is missing: "+loss.String()+"; "+ledger.LossAdvice, "ledger", d.opts.Path,
		"witness", witnessPath(d.opts.Path))
	return nil
}

// damaged is a loss with what is damaged of the log; nil where there is neither.
func damaged(loss *ledger.Loss, has extent, damage *ledger.LogDamage) *ledger.Loss {
	if damage == nil {
		return loss
	}
	if loss == nil {
		loss = &ledger.Loss{HasEntries: has.entries, SeenEntries: has.entries, HasActs: has.acts, SeenActs: has.acts}
	}
	loss.Log = damage
	return loss
}

// committed is called behind each commit.
func (d *database) committed() {
	if d.accepted {
		d.progress.lost.Store(nil)
	} else if d.moved == (extent{}) {
		return
	}
	d.progress.has = d.progress.has.plus(d.moved)
	d.moved, d.accepted = extent{}, false
	d.testify()
}

// testify tells the witness how far the ledger has come. That it cannot be told holds up nobody: what it would show
// then is not seen.
func (d *database) testify() {
	if d.progress.lost.Load() != nil {
		return
	}
	err := d.progress.witness.writeExtent(d.progress.has)
	if err != nil && !d.progress.silent {
		d.opts.Logger.Error("the ledger goes on without a witness: were its newest part to be lost, the next start would "+
			"not see that", "error", err)
	}
	d.progress.silent = err != nil
}

// Loss implements ledger.Store.
func (s *Store) Loss() *ledger.Loss { return s.db.progress.lost.Load() }

// AcceptLoss implements ledger.Store.
func (s *Store) AcceptLoss(ctx context.Context, reason string) (loss ledger.Loss, err error) {
	err = s.write(ctx, "accept_loss", func(t *tx) error {
		trail, err := t.trail()
		if err != nil {
			return err
		}
		lost := t.progress.lost.Load()
		act, err := book.AcceptLoss(trail, lost, reason, t.by(ctx))
		if err != nil {
			return err
		}
		loss, t.accepted = *lost, true
		return t.recordActs(nil, act)
	})
	if err == nil {
		if kept := acceptLogs(s.opts.Path); kept != nil {
			s.opts.Logger.Error("the loss was accepted", "error", kept)
		}
	}
	return wrapResult(loss, err, "accepting what the ledger has lost")
}

// undecided is ledger.ErrLost while an operator has not decided about what is missing: what is charged or paid in now
// would be missing in the ledger that is put back.
func (t *tx) undecided() error {
	return t.progress.lost.Load().Undecided()
}
