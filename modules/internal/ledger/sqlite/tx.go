package sqlite

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// statements are those of every request, prepared once for the writer's connection.
type statements struct {
	begin, commit, version   *sqlite.Stmt
	deleteHolds, updateHolds *sqlite.Stmt
	updateLine               *sqlite.Stmt

	insertHold, insertRequest, insertAttempt, insertEntry, saveBalance *inserter
}

func prepare(conn *sqlite.Conn) (*statements, error) {
	var errs []error
	stmt := func(query string) *sqlite.Stmt {
		s, err := conn.Prepare(query)
		errs = append(errs, err)
		return s
	}
	into := func(query string) *inserter {
		in, err := newInserter(conn, query)
		errs = append(errs, err)
		return in
	}
	s := &statements{
		begin: stmt(`BEGIN IMMEDIATE`), commit: stmt(`COMMIT`), version: stmt(`PRAGMA data_version`),
		deleteHolds: stmt(deleteHolds), updateLine: stmt(updateLine), updateHolds: stmt(updateHolds),
		insertHold: into(insertHold), insertRequest: into(insertRequest), insertAttempt: into(insertAttempt),
		insertEntry: into(insertEntry), saveBalance: into(saveBalance),
	}
	return wrapResult(s, errors.Join(errs...), "preparing a statement")
}

// tx is what an operation sees of the transaction it runs in.
//
// An operation decides first and then changes things: one that fails after it has changed anything, in the
// database or in memory, takes the whole transaction with it.
type tx struct {
	*memory
	opts  *Options
	conn  *sqlite.Conn
	stmts *statements
	op    *operation // that runs
	wrote bool       // by it
	// unmade are attempts that were recorded after their caller had given up: they were never made.
	unmade   map[string]bool
	progress *progress
	unwritten
}

// unwritten is what operations have done in memory only, until it is flushed.
type unwritten struct {
	begins          []unwrittenAttempt
	ends            []ended
	posts           []posted
	changedAccounts []*account
	changedLines    []*keyLine
	err             error // of a row that cannot be written; nobody knows whose
	// moved is what the transaction adds to how far the ledger has come; accepted: with it a loss is accepted.
	moved    extent
	accepted bool
}

// query reads. What is unwritten yet is written before.
func (t *tx) query(query string, row func(*sqlite.Stmt) error, args ...any) error {
	if err := t.flush(); err != nil {
		return err
	}
	return run(t.conn, query, row, args...)
}

// exec writes to what memory does not hold, or to what the caller changes in memory, too.
func (t *tx) exec(query string, args ...any) error {
	t.wrote = true
	if err := t.flush(); err != nil {
		return err
	}
	return run(t.conn, query, nil, args...)
}

// account finds an account by its id. Its periods that are over are ended first, which stays done even when
// the operation is refused.
func (t *tx) account(id string) (*account, error) {
	a, ok := t.accounts.get(id)
	if !ok {
		var err error
		if a, err = t.readAccount(t.conn, id); err != nil {
			return nil, err
		}
		t.accounts.put(id, a)
	}
	return a, t.endPeriods(a)
}

// readPayer is account for a request: it reads the account's key and the key's line with it, which the request needs,
// too.
func (t *tx) readPayer(id, key string) (*account, error) {
	if a, ok := t.accounts.get(id); ok {
		return a, t.endPeriods(a)
	}
	a, k, l, err := findPayer(t.conn, heldInMemory, id, key)
	switch {
	case err == nil:
		a.Held = t.held[a.n]
		a.keep(l)
		t.accounts.put(id, a)
		t.keys.put(key, k)
	case !errors.Is(err, ledger.ErrNotFound):
		return nil, err
	}
	return t.account(id)
}

// line finds the line of keys of a key.
func (t *tx) line(a *account, id string) (keyRef, *keyLine, error) {
	k, err := t.key(t.conn, a, id)
	if err != nil {
		return keyRef{}, nil, err
	}
	l, err := a.line(t.conn, k.root)
	return k, l, err
}

// markChanged is called before an account is changed in memory.
func (t *tx) markChanged(a *account) {
	t.wrote = true
	if !a.dirty {
		a.dirty = true
		t.changedAccounts = append(t.changedAccounts, a)
	}
}

// changeLine is called before a line of keys is changed in memory.
func (t *tx) changeLine(l *keyLine) {
	t.wrote = true
	if !l.dirty {
		l.dirty = true
		t.changedLines = append(t.changedLines, l)
	}
}

// flush writes what is unwritten. When that fails, the transaction is of no use any more.
func (t *tx) flush() error {
	if t.err == nil {
		t.err = t.write()
	}
	return t.err
}

func (t *tx) write() error {
	if err := insert(t.stmts.insertHold, t.begins, bindHold); err != nil {
		return err
	}
	t.begins = t.begins[:0]
	if err := t.flushEnds(); err != nil {
		return err
	}
	t.ends = t.ends[:0]
	if err := insert(t.stmts.insertEntry, t.posts, bindEntry); err != nil {
		return err
	}
	t.posts = t.posts[:0]
	slices.SortFunc(t.changedAccounts, func(a, b *account) int { return cmp.Compare(a.n, b.n) })
	if err := insert(t.stmts.saveBalance, t.changedAccounts, bindBalance); err != nil {
		return err
	}
	t.changedAccounts = t.changedAccounts[:0]
	for _, l := range t.changedLines {
		if l.dirty = false; l.root == l.of.payer {
			continue // the account's balance says it
		}
		if err := l.save(t.stmts.updateLine); err != nil {
			return err
		}
	}
	t.changedLines = t.changedLines[:0]
	if t.unsummed.n >= sumEvery {
		if err := t.rollUp(); err != nil {
			return err
		}
	}
	return t.flushHolds()
}

func (t *tx) now() time.Time { return t.opts.Now().UTC() }

// newID makes an id of 96 random bits.
func (t *tx) newID(prefix string) (string, error) {
	var b [12]byte
	if _, err := io.ReadFull(t.opts.Rand, b[:]); err != nil {
		return "", fmt.Errorf("making an id: %w", err)
	}
	return prefix + hex.EncodeToString(b[:]), nil
}
