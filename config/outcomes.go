package config

import (
	"encoding/json"
	"fmt"
	"time"
)

// Outcomes says what is kept of requests to train by. The zero value keeps nothing.
type Outcomes struct {
	On      bool // there is a block
	Keep    time.Duration
	MaxSize int64 // bytes, of lines and of texts each
	// Text: what was asked is kept, too, for TextKeep.
	Text     bool
	TextKeep time.Duration
}

// MarshalJSON prints the durations in Go's notation.
func (o Outcomes) MarshalJSON() ([]byte, error) {
	if !o.On {
		return []byte("null"), nil
	}
	return json.Marshal(struct {
		Keep     string `json:"keep"`
		MaxSize  int64  `json:"max_size"`
		Text     bool   `json:"text"`
		TextKeep string `json:"text_keep"`
	}{o.Keep.String(), o.MaxSize, o.Text, o.TextKeep.String()})
}

// Allows reports whether lines of who requires that may be kept: for no longer than it lets upstreams keep what it
// sends.
func (o *Outcomes) Allows(q *Requires) bool { return o.On && within(o.Keep, q) }

// AllowsText is Allows for what was asked.
func (o *Outcomes) AllowsText(q *Requires) bool {
	return o.Allows(q) && o.Text && within(o.TextKeep, q)
}

func within(keep time.Duration, q *Requires) bool { return q.Retention == nil || keep <= *q.Retention }

// DefaultOutcomes is what holds in an empty block, and for what was kept when there is none any more.
func DefaultOutcomes() Outcomes {
	return Outcomes{Keep: 90 * day, MaxSize: 256 << 20, TextKeep: 14 * day}
}

// minOutcomes is the least size that is worth the block, in bytes.
const minOutcomes = 1 << 20

func (l *loader) outcomes(file *section) Outcomes {
	o := DefaultOutcomes()
	for _, block := range file.blocks["outcomes"] {
		s := l.open(block, &outcomesGrammar)
		o.On = true
		s.duration("keep", &o.Keep)
		if s.size("max_size", &o.MaxSize); o.MaxSize < minOutcomes {
			s.fail(s.anyOf("max_size"), "Invalid size", "max_size must be at least \"1MiB\". Leave the block out to keep "+
				"nothing.")
		}
		s.flag("text", &o.Text)
		s.duration("text_keep", &o.TextKeep)
		if attr := s.attributes["text_keep"]; attr != nil && !o.Text {
			s.fail(attr.NameRange, "text_keep without text", "No text is kept. Write text = true if it is to be, or remove "+
				"this.")
		}
		if o.Text && o.TextKeep > o.Keep {
			s.fail(s.anyOf("text_keep", "keep", "text"), "Texts kept for longer than their outcomes", fmt.Sprintf("A text "+
				"alone is nothing to train by, and outcomes are kept for %s. Lower text_keep.", o.Keep))
		}
	}
	return o
}
