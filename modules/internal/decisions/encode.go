package decisions

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// blockVersion is the first byte of a block. Fields are only added at the end of a record, where older ones have none.
const blockVersion = 1

// errBlock: a block is not what this version writes.
var errBlock = errors.New("a block of the decision log is damaged, or of a newer version")

// block collects records. Their texts are written once: names of routes, accounts and plans are few.
type block struct {
	texts     map[string]uint64
	order     []string
	body      []byte
	one       []byte
	records   int
	low, high string
	last      int64
}

func (b *block) reset() {
	if b.texts == nil {
		b.texts = make(map[string]uint64)
	}
	clear(b.texts)
	*b = block{texts: b.texts, order: b.order[:0], body: b.body[:0], one: b.one[:0]}
}

// The bits of a record's first number.
const (
	bitLoop = 1 << iota
	bitTools
	bitGraphics
	bitPast
	bitFree
	bitPending
	bitConversation
	bitRetention
	bitWork
	bitShadow
	bitWaited
	bitLeftOut
)

// add appends a record.
func (b *block) add(r *Record) {
	b.one = b.one[:0]
	bits := uint64(0)
	for i, set := range [...]bool{r.Traits.Loop, r.Needs.Tools, r.Graphics, r.Past != nil, r.Free, r.Pending,
		r.Conversation != [16]byte{}, r.Requires.Retention != nil, r.Past != nil && r.Past.Work.Turns > 0,
		r.Shadow != nil, r.Waited > 0, len(r.LeftOut) > 0} {
		if set {
			bits |= 1 << i
		}
	}
	b.uint(bits)
	b.id(r.ID)
	b.text(r.Account, r.Plan, r.Endpoint, r.Profile, r.Config, string(r.Needs.Format), r.Choice, string(r.Stay), r.Refused,
		r.Reason)
	ended := r.Ended.UnixMilli()
	b.int(r.Begun.UnixMilli(), ended-r.Begun.UnixMilli(), r.InputTokens, r.InputBound, r.Allowance, int64(r.Traits.Turns),
		int64(r.Status), r.Charge, r.Cost)
	b.bytes(r.Traits.Signal)
	b.uint(uint64(len(r.Stood)))
	for i := range r.Stood {
		s := &r.Stood[i]
		b.text(s.Route, s.Why)
		b.flag(s.Busy)
		b.flag(s.Behind)
	}
	b.list(r.Full)
	b.list(r.Requires.Regions)
	if r.Requires.Retention != nil {
		b.int(int64(*r.Requires.Retention))
	}
	if r.Conversation != [16]byte{} {
		b.one = append(b.one, r.Conversation[:]...)
	}
	if p := r.Past; p != nil {
		b.text(p.Home)
		for _, s := range p.Served {
			b.text(s.Route)
			b.int(s.Warm)
		}
	}
	b.uint(uint64(len(r.Attempts)))
	for i := range r.Attempts {
		a := &r.Attempts[i]
		b.text(a.Route, a.Outcome)
		u := &a.Usage
		if b.flag(u.Known); u.Known {
			b.int(u.Input, u.CacheRead, u.CacheWrite, u.Output)
		}
	}
	if bits&bitWork != 0 { // last: earlier versions read no further
		w := &r.Past.Work
		b.uint(uint64(w.Turns))
		for _, v := range append(w.Kinds[:], w.Ease) {
			b.uint(uint64(math.Float32bits(v)))
		}
	}
	if s := r.Shadow; s != nil {
		b.shadow(s)
	}
	if r.Waited > 0 {
		b.int(r.Waited.Milliseconds())
	}
	if len(r.LeftOut) > 0 {
		b.list(r.LeftOut)
	}
	b.body = binary.AppendUvarint(b.body, uint64(len(b.one)))
	b.body = append(b.body, b.one...)
	if b.records == 0 || r.ID < b.low {
		b.low = r.ID
	}
	if r.ID > b.high {
		b.high = r.ID
	}
	b.last = max(b.last, ended)
	b.records++
}

func (b *block) shadow(s *Shadow) {
	b.text(s.Route, s.Result, s.Finish, s.ReplyFinish)
	b.int(s.Cost, s.Took.Milliseconds(), s.First.Milliseconds(), s.ReplyTook.Milliseconds(), s.ReplyFirst.Milliseconds())
	u := &s.Usage
	if b.flag(u.Known); u.Known {
		b.int(u.Input, u.CacheRead, u.CacheWrite, u.Output)
	}
}

// data is the whole block.
func (b *block) data() []byte {
	out := append(make([]byte, 0, len(b.body)+32*len(b.order)), blockVersion)
	out = binary.AppendUvarint(out, uint64(len(b.order)))
	for _, text := range b.order {
		out = binary.AppendUvarint(out, uint64(len(text)))
		out = append(out, text...)
	}
	return append(out, b.body...)
}

func (b *block) uint(v uint64) { b.one = binary.AppendUvarint(b.one, v) }

func (b *block) flag(set bool) {
	v := uint64(0)
	if set {
		v = 1
	}
	b.uint(v)
}

func (b *block) int(list ...int64) {
	for _, v := range list {
		b.one = binary.AppendVarint(b.one, v)
	}
}

func (b *block) text(list ...string) {
	for _, s := range list {
		at, ok := b.texts[s]
		if !ok {
			at = uint64(len(b.order))
			s = strings.Clone(s) // it may be a piece of a request's body
			b.texts[s] = at
			b.order = append(b.order, s)
		}
		b.uint(at)
	}
}

func (b *block) bytes(v []byte) {
	b.uint(uint64(len(v)))
	b.one = append(b.one, v...)
}

func (b *block) list(list []string) {
	b.uint(uint64(len(list)))
	b.text(list...)
}

// idPrefix is how ids of requests begin; the rest of one is hex of idBytes.
const (
	idPrefix = "req_"
	idBytes  = 16
)

func (b *block) id(id string) {
	var raw [idBytes]byte
	digits, ok := strings.CutPrefix(id, idPrefix)
	if ok && len(digits) == 2*idBytes {
		if _, err := hex.Decode(raw[:], []byte(digits)); err == nil && hex.EncodeToString(raw[:]) == digits {
			b.bytes(raw[:])
			return
		}
	}
	b.uint(0)
	b.bytes([]byte(id))
}

// eachIn calls each with the records of a block, in order. The record and what it has are overwritten by the next.
func eachIn(data []byte, r *Record, each func() error) error {
	d := decoder{rest: data}
	if v := d.take(1); len(v) != 1 || v[0] != blockVersion {
		return errBlock
	}
	for n := d.uint(); n > 0 && !d.bad; n-- {
		d.texts = append(d.texts, string(d.bytes()))
	}
	past := new(routing.Past)
	for len(d.rest) > 0 && !d.bad {
		one := decoder{rest: d.bytes(), texts: d.texts}
		one.record(r, past)
		if d.bad || one.bad {
			return errBlock
		}
		if err := each(); err != nil {
			return err
		}
	}
	if d.bad {
		return errBlock
	}
	return nil
}

// decoder reads what block writes.
type decoder struct {
	rest  []byte
	texts []string
	bad   bool
}

func (d *decoder) record(r *Record, past *routing.Past) {
	bits := d.uint()
	*r = Record{Stood: r.Stood[:0], Full: r.Full[:0], LeftOut: r.LeftOut[:0], Attempts: r.Attempts[:0]}
	r.Traits.Loop, r.Needs.Tools, r.Graphics = bits&bitLoop != 0, bits&bitTools != 0, bits&bitGraphics != 0
	r.Free, r.Pending = bits&bitFree != 0, bits&bitPending != 0
	if raw := d.bytes(); len(raw) == idBytes {
		r.ID = idPrefix + hex.EncodeToString(raw)
	} else {
		r.ID = string(d.bytes())
	}
	r.Account, r.Plan, r.Endpoint, r.Profile, r.Config = d.text(), d.text(), d.text(), d.text(), d.text()
	r.Needs.Format, r.Choice, r.Stay = llm.FormatKind(d.text()), d.text(), routing.Stay(d.text())
	r.Refused, r.Reason = d.text(), d.text()
	begun := d.int()
	r.Begun, r.Ended = time.UnixMilli(begun).UTC(), time.UnixMilli(begun+d.int()).UTC()
	r.InputTokens, r.InputBound, r.Allowance = d.int(), d.int(), d.int()
	r.Traits.Turns, r.Status = int(d.int()), int(d.int())
	r.Charge, r.Cost = d.int(), d.int()
	r.Traits.Signal = d.bytes()
	for n := d.uint(); n > 0 && !d.bad; n-- {
		r.Stood = append(r.Stood, Stood{Route: d.text(), Why: d.text(), Busy: d.uint() != 0, Behind: d.uint() != 0})
	}
	r.Full, r.Requires.Regions = d.list(r.Full), d.list(nil)
	if bits&bitRetention != 0 {
		r.Requires.Retention = new(time.Duration(d.int()))
	}
	if bits&bitConversation != 0 {
		copy(r.Conversation[:], d.take(len(r.Conversation)))
	}
	if bits&bitPast != 0 {
		*past = routing.Past{Home: d.text()}
		for i := range past.Served {
			past.Served[i] = routing.Served{Route: d.text(), Warm: d.int()}
		}
		r.Past = past
	}
	for n := d.uint(); n > 0 && !d.bad; n-- {
		a := Attempt{Route: d.text(), Outcome: d.text()}
		if d.uint() != 0 {
			a.Usage = Usage{true, d.int(), d.int(), d.int(), d.int()}
		}
		r.Attempts = append(r.Attempts, a)
	}
	if bits&bitWork != 0 {
		w := &past.Work
		w.Turns = int(d.uint())
		for k := range w.Kinds {
			w.Kinds[k] = math.Float32frombits(uint32(d.uint()))
		}
		w.Ease = math.Float32frombits(uint32(d.uint()))
	}
	if bits&bitShadow != 0 {
		r.Shadow = d.shadow()
	}
	if bits&bitWaited != 0 {
		r.Waited = d.milliseconds()
	}
	if bits&bitLeftOut != 0 {
		r.LeftOut = d.list(r.LeftOut)
	}
}

func (d *decoder) shadow() *Shadow {
	s := &Shadow{Route: d.text(), Result: d.text(), Finish: d.text(), ReplyFinish: d.text(), Cost: d.int(),
		Took: d.milliseconds(), First: d.milliseconds(), ReplyTook: d.milliseconds(), ReplyFirst: d.milliseconds()}
	if d.uint() != 0 {
		s.Usage = Usage{true, d.int(), d.int(), d.int(), d.int()}
	}
	return s
}

func (d *decoder) milliseconds() time.Duration { return time.Duration(d.int()) * time.Millisecond }

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.rest)
	return advance(d, v, n)
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.rest)
	return advance(d, v, n)
}

func advance[N uint64 | int64](d *decoder, v N, n int) N {
	if n <= 0 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.bad, d.rest = true, nil
		return nil
	}
	out := d.rest[:n:n]
	d.rest = d.rest[n:]
	return out
}

func (d *decoder) bytes() []byte {
	n := d.uint()
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	return d.take(int(n))
}

func (d *decoder) text() string {
	at := d.uint()
	if at >= uint64(len(d.texts)) {
		d.bad, d.rest = true, nil
		return ""
	}
	return d.texts[at]
}

func (d *decoder) list(to []string) []string {
	for n := d.uint(); n > 0 && !d.bad; n-- {
		to = append(to, d.text())
	}
	return to
}
