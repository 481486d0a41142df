package spool

import (
	"fmt"
	"hash/crc32"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// SetWitness has somebody told how far the spool has come: now, behind each commit before it is acknowledged, and when
// something was released. tell must not call the spool.
func (s *Spool) SetWitness(tell func(ledger.LogMark)) {
	s.io.Lock()
	defer s.io.Unlock()
	s.tell = tell
	s.tellWitness()
}

func (s *Spool) tellWitness() {
	if s.tell != nil {
		m := s.mark
		m.Waiting = s.waiting.Load()
		s.tell(m)
	}
}

// markOf is how far a spool has come whose last record is in this half.
func markOf(h *half) ledger.LogMark {
	m := ledger.LogMark{File: h.header.file, Number: numberOf(h.header.epoch, h.seq)}
	if n := len(h.records); n > 0 {
		m.Tag = crc32.Checksum(h.records[n-1], castagnoli)
	}
	return m
}

// Content is what lies in a spool, as far as it can be read, for whoever compares it with what was seen of it.
type Content struct {
	// Mark is how far it has come; its Waiting is how many records there are, and its Tag 0 where the last one cannot be
	// read.
	Mark    ledger.LogMark
	Records []Kept
	// Lost is how many records that were kept cannot be read, as far as the numbers of the others tell.
	Lost    int64
	Damaged bool
}

// Kept is a record in a spool.
type Kept struct {
	Number  uint64
	Request string
	Time    time.Time // when it was decided
}

// ReadContent reads the spool at a path without a change. Without a file it is the zero Content. What is being written
// meanwhile may look damaged.
func ReadContent(path string) (c Content, err error) {
	content, err := readIfAny(machine{}, path)
	if content == nil || err != nil {
		return c, err
	}
	f, err := scan(content, machine{}.Boot())
	if err != nil {
		return c, fmt.Errorf("reading the spool %s: %w", path, err)
	}
	c.Mark.File, c.Mark.Waiting, c.Damaged = f.file, int64(len(f.records)), len(f.damages) > 0
	for _, d := range f.damages {
		c.Lost += d.Lost
	}
	for i := range f.halves {
		h := &f.halves[i]
		if last := numberOf(h.epoch, h.last); last > c.Mark.Number {
			c.Mark.Number, c.Mark.Tag = last, 0
			if n := len(h.records); n > 0 && h.numbers[n-1] == h.last {
				payload, err := h.records[n-1].encode(nil)
				if err != nil {
					return c, err
				}
				c.Mark.Tag = crc32.Checksum(payload, castagnoli)
			}
		}
		for n := range h.records {
			r := &h.records[n]
			c.Records = append(c.Records, Kept{numberOf(h.epoch, h.numbers[n]), r.Settlement.Request, r.Time})
		}
	}
	for i := range f.records[len(c.Records):] { // of a format of before
		r := &f.records[i]
		c.Records = append(c.Records, Kept{Request: r.Settlement.Request, Time: r.Time})
	}
	return c, nil
}
