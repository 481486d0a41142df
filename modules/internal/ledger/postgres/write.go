package postgres

import (
	"context"
	"encoding/binary"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// addition is a table that the transactions of requests add rows to. They are copied in, which is much less work for
// both sides than an INSERT: the server takes a page of rows at a time, and there is no plan.
type addition[R any] struct {
	sql string // COPY with its columns, in the binary format
	put func(*writeBuffer, *R)
}

func (t *addition[R]) queue(b *writeBuffer, rows []R) {
	if len(rows) == 0 {
		return
	}
	b.begin(t.sql)
	for i := range rows {
		b.beginRow()
		t.put(b, &rows[i])
		b.endRow()
	}
	b.end()
}

// writeBuffer has the messages of a transaction's last round trip, one behind the other, as the server reads them: of
// statements that change rows, and of copies. It is not asked whether it wants the rows, for it drops those of a copy
// that it has refused.
type writeBuffer struct {
	messages []byte
	parts    int // of the messages, each of which the server says the end of
	copies   int
	data     int // where the message of the current copy's rows begins
	row      int // where the current row begins
	fields   uint16
}

func (b *writeBuffer) reset() { b.messages, b.parts, b.copies = b.messages[:0], 0, 0 }

// isPreparing reports whether a connection's statements are prepared, and so can be executed with the commit.
func isPreparing(conn *pgx.Conn) bool {
	return conn.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheStatement
}

// execute puts statements before the copies, that return nothing that anybody reads.
func (b *writeBuffer) execute(ctx context.Context, conn *pgx.Conn, statements []statement) error {
	if len(statements) == 0 {
		return nil
	}
	for _, s := range statements {
		prepared, err := conn.Prepare(ctx, s.sql, s.sql)
		if err != nil {
			return err
		}
		bind := pgproto3.Bind{PreparedStatement: prepared.Name, ParameterFormatCodes: []int16{pgx.BinaryFormatCode}}
		for i, arg := range s.args {
			value, err := conn.TypeMap().Encode(prepared.ParamOIDs[i], pgx.BinaryFormatCode, arg, []byte{}) // nil is NULL
			if err != nil {
				return err
			}
			bind.Parameters = append(bind.Parameters, value)
		}
		if b.messages, err = bind.Encode(b.messages); err != nil {
			return err
		}
		if b.messages, err = (&pgproto3.Execute{}).Encode(b.messages); err != nil {
			return err
		}
	}
	b.parts++
	var err error
	b.messages, err = (&pgproto3.Sync{}).Encode(b.messages)
	return err
}

func (b *writeBuffer) begin(sql string) {
	b.copies++
	b.query(sql)
	b.data = len(b.messages)
	b.messages = append(b.messages, 'd', 0, 0, 0, 0)
	b.messages = append(b.messages, "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
}

func (b *writeBuffer) end() {
	b.messages = append(b.messages, 0xff, 0xff)
	binary.BigEndian.PutUint32(b.messages[b.data+1:], uint32(len(b.messages)-b.data-1))
	b.messages = append(b.messages, 'c', 0, 0, 0, 4)
}

func (b *writeBuffer) query(sql string) {
	b.parts++
	b.messages = append(b.messages, 'Q')
	b.messages = binary.BigEndian.AppendUint32(b.messages, uint32(len(sql)+5))
	b.messages = append(append(b.messages, sql...), 0)
}

func (b *writeBuffer) beginRow() {
	b.row, b.fields = len(b.messages), 0
	b.messages = append(b.messages, 0, 0)
}

func (b *writeBuffer) endRow() { binary.BigEndian.PutUint16(b.messages[b.row:], b.fields) }

func (b *writeBuffer) length(n int) {
	b.fields++
	b.messages = binary.BigEndian.AppendUint32(b.messages, uint32(n))
}

func (b *writeBuffer) null() { b.length(-1) }

func (b *writeBuffer) text(values ...string) {
	for _, v := range values {
		b.length(len(v))
		b.messages = append(b.messages, v...)
	}
}

func (b *writeBuffer) optionalText(v string) {
	if v == "" {
		b.null()
		return
	}
	b.text(v)
}

func (b *writeBuffer) number(values ...int64) {
	for _, v := range values {
		b.length(8)
		b.messages = binary.BigEndian.AppendUint64(b.messages, uint64(v))
	}
}

func (b *writeBuffer) optionalNumber(values ...*int64) {
	for _, v := range values {
		if v == nil {
			b.null()
			continue
		}
		b.number(*v)
	}
}

func (b *writeBuffer) yes(values ...bool) {
	for _, v := range values {
		b.length(1)
		if v {
			b.messages = append(b.messages, 1)
		} else {
			b.messages = append(b.messages, 0)
		}
	}
}

func (b *writeBuffer) bytes(values ...[]byte) {
	for _, v := range values {
		b.length(len(v))
		b.messages = append(b.messages, v...)
	}
}

// send sends the statements, the copies, the one that ends the transaction, and behind it one that looks at something
// (a boolean; "" for none), in one round trip. It returns what the server has said to both. An error is the first that
// it has said before the transaction was over; one of what comes behind leaves found false.
func (b *writeBuffer) send(conn *pgconn.PgConn, last, look string) (tag pgconn.CommandTag, found bool, err error) {
	ctx := context.Background()
	if err := conn.SyncConn(ctx); err != nil {
		return tag, false, err
	}
	b.query(last)
	ending := b.parts // behind which the transaction is over
	if look != "" {
		b.query(look)
	}
	if _, err := conn.Conn().Write(b.messages); err != nil {
		return tag, false, err
	}
	for done := 0; done < b.parts; {
		said, failed := conn.ReceiveMessage(ctx)
		if failed != nil {
			return tag, false, failed
		}
		over := done >= ending
		switch said := said.(type) {
		case *pgproto3.ErrorResponse:
			if err == nil && !over {
				err = pgconn.ErrorResponseToPgError(said)
			}
		case *pgproto3.CommandComplete:
			if !over {
				tag = pgconn.NewCommandTag(string(said.CommandTag))
			}
		case *pgproto3.DataRow:
			found = over && string(said.Values[0]) == "t"
		case *pgproto3.ReadyForQuery:
			done++
		}
	}
	return tag, found, err
}
