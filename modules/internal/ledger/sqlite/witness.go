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
	"sync"
	"sync/atomic"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/spool"
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
// whatever happens. A slot is its magic, the big-endian numbers of testimony.numbers, and the SHA-256 of all that.
// Those with the first magic, which an older fareway wrote, end with the heads.
const (
	witnessMagic   = "fwwitns2"
	witnessMagic1  = "fwwitns1"
	witnessNumbers = 1 + 2 + 4 + 5 + 1 + 2
	witnessSigned  = len(witnessMagic) + 8*witnessNumbers
	witnessSigned1 = len(witnessMagic1) + 8*(1+2+4)
	witnessSlot    = 4096
	witnessSize    = 2 * witnessSlot
)

// testimony is what a witness says: how far a ledger had come, and the log before it.
type testimony struct {
	extent
	log *ledger.LogMark // nil: nothing was told of a log
	// behind: what is acknowledged is synced behind that, so that a power cut may take the end of it (GAP-133). machine
	// is the boot of the machine that it was written in, 0 where that is not known.
	behind  bool
	machine machineBoot
}

// numbers are what a slot says.
func (t *testimony) numbers(number uint64) []uint64 {
	n := append(make([]uint64, 0, witnessNumbers), number, uint64(t.entries), uint64(t.acts))
	n = append(n, t.heads[:]...)
	var log ledger.LogMark
	var flags uint64
	if t.log != nil {
		log, flags = *t.log, 1
	}
	if t.behind {
		flags |= 2
	}
	return append(n, binary.BigEndian.Uint64(log.File[:]), log.Number, uint64(log.Tag), uint64(log.Waiting),
		uint64(log.Covered), flags, t.machine[0], t.machine[1])
}

// testimonyOf is what the numbers of a slot say.
func testimonyOf(n []uint64) testimony {
	t := testimony{extent: extent{entries: int64(n[1]), acts: int64(n[2]), heads: [4]uint64(n[3:])}}
	if len(n) < witnessNumbers {
		return t
	}
	if flags := n[12]; flags > 0 {
		t.behind = flags&2 > 0
		if flags&1 > 0 {
			t.log = &ledger.LogMark{Number: n[8], Tag: uint32(n[9]), Waiting: int64(n[10]), Covered: int64(n[11])}
			binary.BigEndian.PutUint64(t.log.File[:], n[7])
		}
	}
	t.machine = machineBoot(n[13:])
	return t
}

// witnessPath is where the witness of a ledger is.
func witnessPath(database string) string { return database + ".witness" }

// witness is the file beside the database that says how far that had come, and the log before it (GAP-133). It is
// written behind each commit of either and not synced: so it is never ahead of them, and it is behind after a power cut
// at the worst.
type witness struct {
	file *os.File

	mu     sync.Mutex // guards what follows
	number uint64     // of the slot that holds
	says   testimony
}

// errNoWitness: there is no witness, or none that can be read.
var errNoWitness = errors.New("there is no witness beside the ledger")

// openWitness opens the witness of a database for writing, and makes it where there is none: errNoWitness then, beside
// a witness that can be used.
func openWitness(database string) (*witness, error) {
	f, err := os.OpenFile(witnessPath(database), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the ledger's witness: %w", err)
	}
	w := &witness{file: f}
	w.says, w.number, err = parseWitness(f)
	if err == nil || errors.Is(err, errNoWitness) {
		return w, err
	}
	return nil, errors.Join(fmt.Errorf("reading the ledger's witness: %w", err), f.Close())
}

// readWitness reads the witness of a database, which may be written meanwhile; errNoWitness where there is none.
func readWitness(database string) (*testimony, error) {
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

func parseWitness(r io.ReaderAt) (seen testimony, number uint64, err error) {
	for at := int64(0); at < witnessSize; at += witnessSlot {
		var b [witnessSigned + sha256.Size]byte
		if _, err := r.ReadAt(b[:], at); err != nil && !errors.Is(err, io.EOF) {
			return testimony{}, 0, err
		}
		size := witnessSigned
		switch string(b[:len(witnessMagic)]) {
		case witnessMagic:
		case witnessMagic1:
			size = witnessSigned1
		default:
			continue
		}
		if sha256.Sum256(b[:size]) != [sha256.Size]byte(b[size:]) {
			continue
		}
		var n []uint64
		for i := len(witnessMagic); i < size; i += 8 {
			n = append(n, binary.BigEndian.Uint64(b[i:]))
		}
		if n[0] > number {
			number, seen = n[0], testimonyOf(n)
		}
	}
	if number == 0 {
		return testimony{}, 0, errNoWitness
	}
	return seen, number, nil
}

// write changes what the witness says.
func (w *witness) write(change func(*testimony)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.says)
	w.number++
	b := append(make([]byte, 0, witnessSigned+sha256.Size), witnessMagic...)
	for _, n := range w.says.numbers(w.number) {
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
	silent  atomic.Bool // the witness could not be written, which was said
	// lost is what the ledger does not have of what was seen; nil: nothing. While it is set the witness stays as it is,
	// so that it knows the ledger that is missing when that is put back.
	lost atomic.Pointer[ledger.Loss]
	// cut: the machine was started since this ledger was synced behind what was acknowledged. It does not change.
	cut bool
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
	w, err := openWitness(d.opts.Path)
	if err != nil && !errors.Is(err, errNoWitness) {
		return err
	}
	d.progress.has, d.progress.witness = has, w
	seen := w.says
	if err != nil {
		seen.extent = has
		if has != (extent{}) {
			d.opts.Logger.Warn("there was no witness beside the ledger, as where it was copied without one or an older "+
				"fareway kept it: whether its newest part is missing could not be seen; there is one from now on",
				"witness", witnessPath(d.opts.Path), "entries", has.entries, "acts", has.acts)
		}
	}
	traces := traces{seen: &seen}
	if traces.damage, err = undecidedDamage(d.opts.Path); err != nil {
		return err
	}
	if traces.log, err = spool.ReadContent(d.opts.log); err != nil && !errors.Is(err, spool.ErrForeign) {
		return err // who opens a spool that is none says so
	}
	loss, _, err := lossOf(d.conn, has, traces, d.opts.machine)
	if err != nil {
		return err
	}
	d.progress.cut = seen.isCut(d.opts.machine)
	d.note(loss)
	return d.testifyMode()
}

// testifyMode tells the witness how this process syncs, before it acknowledges anything.
func (d *database) testifyMode() error {
	if d.progress.lost.Load() != nil {
		return nil // who accepts the loss says it
	}
	d.testify()
	if !d.opts.Behind {
		return nil
	}
	return d.progress.witness.file.Sync()
}

// readExtent reads anew how far the ledger has come: it was opened anew, or another program has written to it.
func (d *database) readExtent() error {
	has, err := readExtent(d.conn)
	if err != nil {
		return err
	}
	loss, err := missing(d.conn, has, d.progress.has)
	if err == nil {
		d.note(loss)
	}
	d.progress.has = has
	return err
}

// note keeps in mind, and says, that a part of the ledger is missing; nil: none is.
func (d *database) note(loss *ledger.Loss) {
	if loss == nil || d.progress.lost.Load() != nil {
		return
	}
	d.progress.lost.Store(loss)
	if loss.PowerCut {
		d.opts.Logger.Warn("a power cut has taken the end of the ledger, as durability \"process\" lets it: "+loss.String()+
			"; it is booked on the audit trail, and the ledger goes on", "ledger", d.opts.Path)
		return
	}
	d.opts.Logger.Error("a part of the ledger is missing: "+loss.String()+"; "+ledger.LossAdvice, "ledger", d.opts.Path,
		"witness", witnessPath(d.opts.Path))
}

// committed is called behind each commit.
func (d *database) committed() {
	d.unsynced.Store(true)
	if d.accepted {
		d.progress.lost.Store(nil)
		d.progress.witness.forgetLog()
	} else if d.moved == (extent{}) {
		return
	}
	d.progress.has = d.progress.has.plus(d.moved)
	d.moved, d.accepted = extent{}, false
	d.testify()
}

// forgetLog has the witness wait for what the log says of itself.
func (w *witness) forgetLog() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.says.log = nil
}

// testify tells the witness how far the ledger has come. That it cannot be told holds up nobody: what it would show
// then is not seen.
func (d *database) testify() {
	has := d.progress.has
	d.tell(func(t *testimony) { t.extent, t.behind, t.machine = has, d.opts.Behind, d.opts.machine })
}

// tell tells the witness something, unless it is to stay as it is.
func (d *database) tell(change func(*testimony)) {
	if d.progress.lost.Load() != nil {
		return
	}
	err := d.progress.witness.write(change)
	if errors.Is(err, os.ErrClosed) {
		return // the log is closed after the store
	}
	if was := d.progress.silent.Swap(err != nil); err != nil && !was {
		d.opts.Logger.Error("the ledger goes on without a witness: were its newest part to be lost, the next start would "+
			"not see that", "error", err)
	}
}

// WitnessLog implements live.Store.
func (s *Store) WitnessLog(m ledger.LogMark) {
	s.db.tell(func(t *testimony) {
		if m.Covered == 0 { // since this start nothing was taken up
			if m.Covered = t.entries; t.log != nil && m.Waiting > 0 && t.log.File == m.File {
				m.Covered = t.log.Covered
			}
		}
		t.log = &m
	})
}

// Loss implements ledger.Store.
func (s *Store) Loss() *ledger.Loss { return s.db.progress.lost.Load() }

// AcceptLoss implements ledger.Store.
func (s *Store) AcceptLoss(ctx context.Context, reason string) (loss ledger.Loss, err error) {
	loss, err = s.acceptLoss(ctx, func(trail book.Trail, lost *ledger.Loss, by book.By) (book.Act, error) {
		return book.AcceptLoss(trail, lost, reason, by)
	})
	return wrapResult(loss, err, "accepting what the ledger has lost")
}

// acceptLoss goes on without what is missing, with an act that says it.
func (s *Store) acceptLoss(ctx context.Context, decide func(book.Trail, *ledger.Loss, book.By) (book.Act, error)) (
	loss ledger.Loss, err error) {
	err = s.write(ctx, "accept_loss", func(t *tx) error {
		trail, err := t.trail()
		if err != nil {
			return err
		}
		lost := t.progress.lost.Load()
		act, err := decide(trail, lost, t.by(ctx))
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
		if s.opts.Behind {
			err = s.db.progress.witness.file.Sync()
		}
	}
	return loss, err
}

// bookPowerCut books what a power cut has taken, where it was free to.
func (s *Store) bookPowerCut() error {
	lost := s.db.progress.lost.Load()
	if lost == nil || !lost.PowerCut {
		return nil
	}
	_, err := s.acceptLoss(context.Background(), book.RecordPowerCut)
	return wrap(err, "booking what a power cut has taken")
}

// PowerCut implements live.Store.
func (s *Store) PowerCut() bool { return s.db.progress.cut }

// undecided is ledger.ErrLost while an operator has not decided about what is missing: what is charged or paid in now
// would be missing in the ledger that is put back.
func (t *tx) undecided() error {
	return t.progress.lost.Load().Undecided()
}
