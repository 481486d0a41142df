package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// A record is a version and its fields in the order of code: whole numbers as varints, texts with their length before
// them, lists with their number, what may be missing with a flag. Those of before are JSON, whose first byte no version
// has.
const codeVersion = 1

// coder writes a record's fields, or reads them: what code says once holds for both.
type coder struct {
	b       []byte
	reading bool
	err     error
}

var errCode = errors.New("it ends too early")

// encode appends the record to b.
func (r *Record) encode(b []byte) ([]byte, error) {
	c := coder{b: append(b, codeVersion)}
	c.record(r)
	if c.err != nil {
		return nil, fmt.Errorf("encoding the settlement of request %q: %w", r.Settlement.Request, c.err)
	}
	return c.b, nil
}

func decode(payload []byte) (r Record, err error) {
	switch {
	case len(payload) == 0:
		err = errCode
	case payload[0] == '{':
		return decodeJSON(payload)
	case payload[0] != codeVersion:
		err = fmt.Errorf("its version is %d", payload[0])
	default:
		c := coder{b: payload[1:], reading: true}
		if c.record(&r); c.err == nil && len(c.b) > 0 {
			c.err = fmt.Errorf("%d bytes are left of it", len(c.b))
		}
		err = c.err
	}
	if err != nil {
		return Record{}, fmt.Errorf("decoding a settlement: %w", err)
	}
	return r, nil
}

func (c *coder) record(r *Record) {
	c.settlement(&r.Settlement)
	c.texts(&r.Account, &r.Key)
	list(c, &r.Attempts, c.attempt)
	maybe(c, &r.Charge, c.number)
	c.flags(&r.Pending)
	c.moment(&r.Time)
	maybe(c, &r.Hold, func(h *Hold) {
		c.texts(&h.Owner, &h.Endpoint, &h.Profile)
		c.numbers(&h.Microcents, &h.Waived, &h.Over, &h.Tokens)
		c.moment(&h.Created)
		c.flags(&h.Kept)
	})
}

func (c *coder) settlement(s *ledger.Settlement) {
	status := int64(s.Status)
	c.texts(&s.Request, &s.Reason)
	c.numbers(&status, &s.Surcharge)
	s.Status = int(status)
	c.flags(&s.Free, &s.ServiceLimit)
	list(c, &s.Results, func(r *ledger.Result) {
		c.texts(&r.Attempt, (*string)(&r.Outcome), &r.Key, &r.Reference)
		c.flags(&r.Operator)
		maybe(c, &r.Usage, c.usage)
		maybe(c, &r.Estimate, c.usage)
	})
}

func (c *coder) usage(u *llm.Usage) {
	for _, n := range []**int64{&u.Input, &u.CacheRead, &u.CacheWrite, &u.Output, &u.Reasoning} {
		maybe(c, n, c.number)
	}
	c.flags(&u.Estimated)
	c.texts(&u.Flaw, &u.Doubt)
}

func (c *coder) attempt(a *Attempt) {
	c.texts(&a.ID, &a.Route, &a.Provider, &a.Model, &a.Reference)
	c.numbers(&a.PriceVersion, &a.Worst)
	c.price(&a.Price)
	c.price(&a.Cost)
	c.moment(&a.Created)
	c.flags(&a.Beside, &a.NotMade)
}

func (c *coder) price(p *config.Price) {
	c.numbers(&p.Input, &p.CacheRead, &p.CacheWrite, &p.Output)
	list(c, &p.Tiers, func(t *config.Tier) {
		c.numbers(&t.Above, &t.Input, &t.CacheRead, &t.CacheWrite, &t.Output)
	})
}

// list codes a list; one that is empty is nil when it is read.
func list[T any](c *coder, all *[]T, one func(*T)) {
	n := int64(len(*all))
	c.number(&n)
	if c.reading {
		if n < 0 || n > int64(len(c.b)) {
			c.fail()
			return
		}
		if *all = nil; n > 0 {
			*all = make([]T, n)
		}
	}
	for i := range *all {
		one(&(*all)[i])
	}
}

// maybe codes what may be missing.
func maybe[T any](c *coder, v **T, one func(*T)) {
	there := *v != nil
	if c.flags(&there); c.reading && there {
		*v = new(T)
	}
	if there && *v != nil {
		one(*v)
	}
}

func (c *coder) fail() {
	c.err, c.b = errCode, nil
}

func (c *coder) number(n *int64) {
	if !c.reading {
		c.b = binary.AppendVarint(c.b, *n)
		return
	}
	v, size := binary.Varint(c.b)
	if size <= 0 {
		c.fail()
		return
	}
	*n, c.b = v, c.b[size:]
}

func (c *coder) numbers(all ...*int64) {
	for _, n := range all {
		c.number(n)
	}
}

func (c *coder) texts(all ...*string) {
	for _, s := range all {
		n := int64(len(*s))
		if c.number(&n); !c.reading {
			c.b = append(c.b, *s...)
			continue
		}
		if n < 0 || n > int64(len(c.b)) {
			c.fail()
			return
		}
		*s, c.b = string(c.b[:n]), c.b[n:]
	}
}

// flags codes up to eight flags in a byte.
func (c *coder) flags(all ...*bool) {
	if !c.reading {
		var bits byte
		for i, f := range all {
			if *f {
				bits |= 1 << i
			}
		}
		c.b = append(c.b, bits)
		return
	}
	if len(c.b) == 0 {
		c.fail()
		return
	}
	for i, f := range all {
		*f = c.b[0]>>i&1 == 1
	}
	c.b = c.b[1:]
}

// moment codes a time in UTC to the nanosecond, from 1678 to 2261.
func (c *coder) moment(t *time.Time) {
	n := int64(math.MinInt64)
	if !c.reading && !t.IsZero() {
		if n = t.UnixNano(); !time.Unix(0, n).Equal(*t) {
			c.err = fmt.Errorf("no record has a form for the time %s", t)
		}
	}
	if c.number(&n); !c.reading {
		return
	}
	if *t = (time.Time{}); n != math.MinInt64 {
		*t = time.Unix(0, n).UTC()
	}
}
