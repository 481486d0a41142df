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
	// Train is at which time of day (UTC) a model is taught by what is kept, nil for never.
	Train *time.Duration
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
		Train    string `json:"train,omitempty"`
	}{o.Keep.String(), o.MaxSize, o.Text, o.TextKeep.String(), o.trainText()})
}

// timeOfDay is how a time of day is written.
const timeOfDay = "15:04"

func (o *Outcomes) trainText() string {
	if o.Train == nil {
		return ""
	}
	return time.Time{}.Add(*o.Train).Format(timeOfDay)
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
		var at string
		if v, ok := s.text("train", &at); ok {
			if t, err := time.Parse(timeOfDay, at); err == nil {
				o.Train = new(time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute)
			} else {
				s.refuse(v, "must be a time of day in UTC, as in \"03:00\"")
			}
		}
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
