package audit

import (
	"cmp"
	"errors"
	"hash/maphash"
	"math/bits"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// days are sums of requests by day, to be compared with those that a ledger keeps. A ledger may have more of them,
// by key, route and profile, than memory holds. So each number of a day is multiplied by a random number that its
// key, route, profile and column stand for, and all of them are added up, modulo 2^128: the sums of requests are
// multiplied in the same way as the requests' own numbers, so that both come to the same. Where a ledger's are
// others, they do so with a chance of 1 in 2^64.
type days struct {
	seed    maphash.Seed
	sums    map[int64]wide // by day
	divider book.Divider
	rows    map[string]*book.Usage // of the request at hand, by route
}

// wide is a number of 128 bits.
type wide struct{ hi, lo uint64 }

func (w wide) plus(v wide) wide {
	lo, carry := bits.Add64(w.lo, v.lo, 0)
	hi, _ := bits.Add64(w.hi, v.hi, carry)
	return wide{hi, lo}
}

func newDays() *days {
	return &days{seed: maphash.MakeSeed(), sums: map[int64]wide{}, rows: map[string]*book.Usage{}}
}

// part are days of other requests, to be added.
func (d *days) part() *days {
	p := newDays()
	p.seed = d.seed
	return p
}

func (d *days) add(part *days) {
	for day, sum := range part.sums {
		d.sums[day] = d.sums[day].plus(sum)
	}
}

// divide gives what a request comes to by its routes. It is gone with the next one.
func (d *days) divide(r *Request) map[string]*book.Usage {
	clear(d.rows)
	_ = d.divider.Count(&r.RequestRecord, func(route string) (*book.Usage, error) {
		if d.rows[route] == nil {
			d.rows[route] = &book.Usage{}
		}
		return d.rows[route], nil
	})
	return d.rows
}

// count adds a request that has a profile in the sums.
func (d *days) count(r *Request, profile string) {
	for route, usage := range d.divide(r) {
		d.row(book.DayOf(r.Settled), r.KeyNumber, route, profile, usage)
	}
}

// row adds what requests come to. No two of day, key, route, profile and column have the same bytes, however a
// route is called.
func (d *days) row(day, key int64, route, profile string, u *book.Usage) {
	var h maphash.Hash
	h.SetSeed(d.seed)
	maphash.WriteComparable(&h, day)
	maphash.WriteComparable(&h, key)
	maphash.WriteComparable(&h, len(route))
	_, _ = h.WriteString(route)
	maphash.WriteComparable(&h, len(profile))
	_, _ = h.WriteString(profile)
	sum := d.sums[day]
	for i, n := range u.Columns() {
		_ = h.WriteByte(byte(i))
		times := h.Sum64()
		hi, lo := bits.Mul64(times, uint64(n))
		if n < 0 {
			hi -= times
		}
		sum = sum.plus(wide{hi, lo})
	}
	d.sums[day] = sum
}

// verifyDays compares the sums of days with the requests that are there, and those of pruned ones with what was
// written down of each key.
func (v *verification) verifyDays() error {
	if n := v.head.Summed; n > 0 {
		e, found, err := v.Entry("", n)
		if err != nil {
			return err
		}
		if !found || e.Kind != ledger.Charged {
			return Disagree("days", "they say that they go up to entry %d of the journal, which is no settlement", n)
		}
	}
	if v.from > 0 {
		return v.verifyPrunedDays() // not all requests were looked at
	}
	kept := v.days.part()
	wrong, has := int64(0), false
	differ := func(day int64) {
		if !has || day < wrong {
			wrong, has = day, true
		}
	}
	err := each(v.Days(), func(row Day) error {
		if kept.row(row.Day, row.Key, row.Route, row.Profile, &row.Usage); row.Parts < 1 {
			differ(row.Day)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, both := range [2][2]map[int64]wide{{kept.sums, v.days.sums}, {v.days.sums, kept.sums}} {
		for day, sum := range both[0] {
			if both[1][day] != sum {
				differ(day)
			}
		}
	}
	if has {
		return v.differingDay(wrong)
	}
	return v.verifyPrunedDays()
}

// differingDay names the first sum of a day that is not what its requests make.
func (v *verification) differingDay(day int64) error {
	type cell struct {
		key            int64
		route, profile string
	}
	kept, found := map[cell]wide{}, map[cell]wide{}
	add := func(to map[cell]wide, c cell, u *book.Usage) {
		one := v.days.part()
		one.row(day, c.key, c.route, c.profile, u)
		to[c] = to[c].plus(one.sums[day])
	}
	err := each(v.Days(), func(row Day) error {
		if row.Day == day {
			add(kept, cell{row.Key, row.Route, row.Profile}, &row.Usage)
		}
		return nil
	})
	if err == nil {
		err = each(v.Requests(Span{}), func(r *Request) error {
			if r.Entry > v.head.Summed || book.DayOf(r.Settled) != day {
				return nil
			}
			_ = v.price(r) // verifyRequest says where one is missing
			for route, usage := range v.days.divide(r) {
				add(found, cell{r.KeyNumber, route, v.head.Unprofiled.ProfileOf(r)}, usage)
			}
			return nil
		})
	}
	if err != nil {
		return err
	}
	var first *cell
	for _, cells := range []map[cell]wide{kept, found} {
		for c := range cells {
			_, inKept := kept[c]
			_, inFound := found[c]
			if (!inKept || !inFound || kept[c] != found[c]) && (first == nil || cmp.Or(cmp.Compare(c.key, first.key),
				cmp.Compare(c.route, first.route), cmp.Compare(c.profile, first.profile)) < 0) {
				first = &c
			}
		}
	}
	if first == nil {
		return Disagree("day/"+book.DateOf(day), "a sum of its requests is of none of them")
	}
	return Disagree("day/"+book.DateOf(day), "the sums of its requests with key number %d and route %q are not what "+
		"these make, with profile %q", first.key, first.route, first.profile)
}

// verifyPrunedDays compares what was written down of pruned requests with the sums of their days, key by key.
func (v *verification) verifyPrunedDays() (err error) {
	pruned, days := open(v.Pruned(), &err), open(v.PrunedDays(), &err)
	defer pruned.stop()
	defer days.stop()
	for err == nil && (pruned.has || days.has) {
		p, d := pruned.row, days.row
		if p.Tokens = 0; !pruned.has || !days.has || p != d { // days do not say which tokens count
			key := p.Key
			if !pruned.has || days.has && (d.Account < p.Account || d.Account == p.Account && d.Key < key) {
				key = d.Key
			}
			return Disagree("pruned", "the sums by day of the pruned requests of key number %d are not what they came to", key)
		}
		err = errors.Join(pruned.advance(), days.advance())
	}
	return err
}
