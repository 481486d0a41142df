package sqlite

import (
	"fmt"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/plugins/llm"
)

// rowsAtOnce is how many rows one statement inserts where there are so many. They share what a statement costs, and
// SQLite looks for the place of a row that follows the one before only where that went.
const rowsAtOnce = 16

// inserter puts rows into a table.
type inserter struct{ one, many rows }

// newInserter prepares a statement that ends with the values of one row. It should name all columns in the table's
// order, which saves SQLite a copy of each, and begin with INSERT OR FAIL: who inserts takes the transaction back when
// a row fails, so that no statement needs a journal of its own.
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
		if err := execStatement(r.stmt); err != nil {
			clear(r.bound)
			return fmt.Errorf("inserting %d rows: %w", n, err)
		}
		all = all[n:]
	}
	return nil
}

// rows are the parameters of a statement, one or more rows of them. Most are as they were in the rows before, and
// SQLite, which keeps what is bound, has them already.
type rows struct {
	stmt  *sqlite.Stmt
	last  int     // that was bound
	bound []value // by parameter
}

// value is what a parameter has: a number, a text that usual bound, or NULL. The zero value is any other, or none.
type value struct {
	kind   valueKind
	number int64
	text   string
}

type valueKind uint8

const (
	isOther valueKind = iota
	isNumber
	isText
	isNull
)

func newRows(conn *sqlite.Conn, query string) (r rows, err error) {
	if r.stmt, err = conn.Prepare(query); err == nil {
		r.bound = make([]value, r.stmt.BindParamCount()+1)
	}
	return r, err
}

func (r *rows) next() int {
	r.last++
	return r.last
}

// text is for what no two rows share.
func (r *rows) text(s string) { r.stmt.BindText(r.other(), s) }

func (r *rows) bytes(b []byte) { r.stmt.BindBytes(r.other(), b) }

// other is the next parameter, which is always bound.
func (r *rows) other() int {
	i := r.next()
	r.bound[i].kind = isOther
	return i
}

// usual is text for what is mostly the same as in the rows before.
func (r *rows) usual(texts ...string) {
	for _, s := range texts {
		i := r.next()
		if v := &r.bound[i]; v.kind != isText || v.text != s {
			v.kind, v.text = isText, s
			r.stmt.BindText(i, s)
		}
	}
}

func (r *rows) number(numbers ...int64) {
	for _, n := range numbers {
		i := r.next()
		if v := &r.bound[i]; v.kind != isNumber || v.number != n {
			v.kind, v.number = isNumber, n
			r.stmt.BindInt64(i, n)
		}
	}
}

func (r *rows) null() {
	i := r.next()
	if v := &r.bound[i]; v.kind != isNull {
		v.kind = isNull
		r.stmt.BindNull(i)
	}
}

func (r *rows) truth(b bool) { r.number(boolToInt(b)) }

// optionalNumber stores 0, which numbers nothing, as NULL.
func (r *rows) optionalNumber(n int64) {
	if n == 0 {
		r.null()
	} else {
		r.number(n)
	}
}

func (r *rows) count(counts ...*int64) {
	for _, n := range counts {
		if n == nil {
			r.null()
		} else {
			r.number(*n)
		}
	}
}

// worst stores what is not known, which is below zero, as NULL.
func (r *rows) worst(n int64) {
	if n < 0 {
		r.null()
	} else {
		r.number(n)
	}
}

// optional stores "" as NULL, which partial indexes pass over.
func (r *rows) optional(s string) {
	if s == "" {
		r.null()
	} else {
		r.text(s)
	}
}

// estimate stores two columns, input and output.
func (r *rows) estimate(u *llm.Usage) {
	if u == nil {
		u = &llm.Usage{}
	}
	r.count(u.Input, u.Output)
}
