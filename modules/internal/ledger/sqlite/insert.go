package sqlite

import (
	"fmt"
	"strings"

	"zombiezen.com/go/sqlite"
)

// rowsAtOnce is how many rows one statement inserts where there are so many. They share what a statement costs, and SQLite
// looks for the place of a row that follows the one before only where that went.
const rowsAtOnce = 16

// inserter puts rows into a table.
type inserter struct{ one, many rows }

// newInserter prepares a statement that ends with the values of one row. It should name all columns in the table's order,
// which saves SQLite a copy of each, and begin with INSERT OR FAIL: who inserts takes the transaction back when a row fails, so that
// no statement needs a journal of its own.
func newInserter(conn *sqlite.Conn, query string) (*inserter, error) {
	values := query[strings.LastIndex(query, "("):]
	one, err := newRows(conn, query)
	if err != nil {
		return nil, err
	}
	many, err := newRows(conn, query+strings.Repeat(", "+values, rowsAtOnce-1))
	return &inserter{one, many}, err
}

// insert inserts rows. Their parameters are bound by bind, in their order.
func insert[T any](in *inserter, all []T, bind func(*rows, *T)) error {
	for len(all) > 0 {
		r, n := &in.one, 1
		if len(all) >= rowsAtOnce {
			r, n = &in.many, rowsAtOnce
		}
		r.last = 0
		for i := range all[:n] {
			bind(r, &all[i])
		}
		if err := done(r.stmt); err != nil {
			clear(r.usuals)
			return fmt.Errorf("inserting %d rows: %w", n, err)
		}
		all = all[n:]
	}
	return nil
}

// rows are the parameters of a statement, one or more rows of them.
type rows struct {
	stmt *sqlite.Stmt
	last int // that was bound
	// usuals are the texts that are bound, by parameter, where usual bound them.
	usuals []string
}

func newRows(conn *sqlite.Conn, query string) (r rows, err error) {
	if r.stmt, err = conn.Prepare(query); err == nil {
		r.usuals = make([]string, r.stmt.BindParamCount()+1)
	}
	return r, err
}

func (r *rows) next() int {
	r.last++
	return r.last
}

func (r *rows) text(s string) { r.stmt.BindText(r.next(), s) }

// usual is text for what is mostly the same as in the rows before: SQLite then has it already.
func (r *rows) usual(s string) {
	i := r.next()
	if s == "" || r.usuals[i] != s {
		r.usuals[i] = s
		r.stmt.BindText(i, s)
	}
}

func (r *rows) bytes(b []byte)         { r.stmt.BindBytes(r.next(), b) }
func (r *rows) number(n int64)         { r.stmt.BindInt64(r.next(), n) }
func (r *rows) optionalNumber(n int64) { bindNumber(r.stmt, r.next(), n) }
func (r *rows) count(n *int64)         { bindCount(r.stmt, r.next(), n) }
func (r *rows) truth(b bool)           { r.stmt.BindBool(r.next(), b) }

// optional stores "" as NULL, which partial indexes pass over.
func (r *rows) optional(s string) {
	if s == "" {
		r.stmt.BindNull(r.next())
		return
	}
	r.text(s)
}
