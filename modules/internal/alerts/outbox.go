package alerts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/files"
)

const (
	fileName = "alerts.json"
	// maxMessages bounds the messages that wait: the oldest is given up for a new one.
	maxMessages = 500
	// maxGivenUp is how many that were not delivered are remembered.
	maxGivenUp = 50
	// keepFor is how long a message is tried.
	keepFor = 75 * time.Hour
)

// outbox has the messages that wait for their destinations, in the order in which they were written, and what they are
// about. It is one file, written whole, so that an alert is never told and forgotten, or told twice, by a crash; what
// was sent and not yet written down is sent again under the same id. It needs neither the ledger nor a request.
type outbox struct {
	path  string
	write func(path string, content []byte) error

	messages []*Message
	disabled map[string]Disabled // by destination
	givenUp  []GivenUp
	unsaved  error // why the file is not what is here
}

// Disabled is a destination that is told nothing until its block changes, or a test succeeds.
type Disabled struct {
	Why    string    `json:"why"`
	Since  time.Time `json:"since"`
	Digest string    `json:"digest"` // of the block
}

// GivenUp is a message that did not reach a destination.
type GivenUp struct {
	ID          string    `json:"id"`
	Type        string    `json:"type"`
	Destination string    `json:"destination"`
	Written     time.Time `json:"written"`
	At          time.Time `json:"at"`
	Why         string    `json:"why"`
}

// kept is what the file has.
type kept struct {
	Version  int                 `json:"version"`
	Alerts   []*Alert            `json:"alerts"` // raised
	Over     []Alert             `json:"over,omitempty"`
	Messages []*Message          `json:"messages"`
	Disabled map[string]Disabled `json:"disabled,omitempty"`
	GivenUp  []GivenUp           `json:"given_up,omitempty"`
}

const fileVersion = 1

// errUnread: the file may be as good as ever.
var errUnread = errors.New("the outbox of alerts cannot be read")

func newOutbox(dir string) *outbox {
	return &outbox{path: filepath.Join(dir, fileName), write: writeFile, disabled: make(map[string]Disabled)}
}

func writeFile(path string, content []byte) error {
	return errors.Join(files.ReplaceFile(path, content), files.SyncFolder(filepath.Dir(path)))
}

// load reads the file into the outbox and a watch. A file that cannot be used is put aside, and the error says so: what
// is so will be found again.
func (o *outbox) load(w *watch, now time.Time) error {
	content, err := os.ReadFile(o.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUnread, err)
	}
	var k kept
	err = json.Unmarshal(content, &k)
	if err == nil && k.Version != fileVersion {
		err = fmt.Errorf("it is of version %d, and this program knows version %d", k.Version, fileVersion)
	}
	if err != nil {
		aside := o.path + ".unusable"
		return errors.Join(fmt.Errorf("reading the outbox of alerts, which begins anew (the old one is %s): %w", aside, err),
			os.Rename(o.path, aside))
	}
	for _, a := range k.Alerts {
		if a != nil && a.Raised != nil {
			a.last = now // unless it is found again soon, it is over
			w.alerts[alertKey{a.Event, a.Subject}] = a
		}
	}
	for _, a := range k.Over {
		w.over[a.Event] = append(w.over[a.Event], a)
	}
	o.messages = slices.DeleteFunc(k.Messages, func(m *Message) bool {
		if m == nil {
			return true
		}
		m.onDisk = true
		maps.DeleteFunc(m.To, func(_ string, d *Delivery) bool { return d == nil })
		return len(m.To) == 0
	})
	if k.Disabled != nil {
		o.disabled = k.Disabled
	}
	o.givenUp = k.GivenUp
	return nil
}

// encode is what the file is to have.
func (o *outbox) encode(w *watch) ([]byte, error) {
	k := kept{Version: fileVersion, Alerts: []*Alert{}, Messages: o.messages, Disabled: o.disabled, GivenUp: o.givenUp}
	for _, a := range w.alerts {
		if a.Raised != nil {
			k.Alerts = append(k.Alerts, a)
		}
	}
	slices.SortFunc(k.Alerts, compareAlerts)
	for _, over := range w.over {
		k.Over = append(k.Over, over...)
	}
	return json.Marshal(k)
}

// put adds a message for destinations. What is too much is given up, the oldest first.
func (o *outbox) put(m *Message, to []string, now time.Time) (lost []GivenUp) {
	if len(to) == 0 {
		return nil
	}
	m.To = make(map[string]*Delivery, len(to))
	for _, destination := range to {
		m.To[destination] = &Delivery{Next: now}
	}
	o.messages = append(o.messages, m)
	for len(o.messages) > maxMessages {
		oldest := o.messages[0]
		for destination := range oldest.To { // with the last of them it is gone
			lost = append(lost, o.giveUp(oldest, destination, now, "too many messages wait, and it was the oldest"))
		}
	}
	return lost
}

// waiting are the messages for a destination, the oldest first, at most limit; 0: all.
func (o *outbox) waiting(destination string, limit int) (all []*Message) {
	for _, m := range o.messages {
		if m.To[destination] != nil {
			if all = append(all, m); len(all) == limit {
				break
			}
		}
	}
	return all
}

// inTurn are the messages for a destination as they are to be tried: those that have failed again and again let the
// others pass, of which pages come first. None passes an older one about the same: the end of an alert does not come
// before its beginning.
func (o *outbox) inTurn(destination string) []*Message {
	all := o.waiting(destination, 0)
	isStuck := func(m *Message) bool { return m.To[destination].Attempts >= stuckAfter }
	if !slices.ContainsFunc(all, isStuck) {
		return all
	}
	var before topics
	rank := make(map[*Message]int, len(all))
	turn := make([]*Message, 0, len(all))
	for _, m := range all {
		d, err := m.data()
		if passes := before.add(&d); err != nil || !passes {
			continue
		}
		if turn = append(turn, m); isStuck(m) {
			rank[m] = 2
		} else if d.Severity != string(config.AlertPage) {
			rank[m] = 1
		}
	}
	slices.SortStableFunc(turn, func(a, b *Message) int { return cmp.Compare(rank[a], rank[b]) })
	return turn
}

// topics are what messages are about.
type topics map[alertKey]bool

// add adds what a message is about, and reports whether nothing of it was there before.
func (t *topics) add(d *Data) bool {
	if *t == nil {
		*t = make(topics)
	}
	fresh := true
	for i := range d.Alerts {
		k := alertKey{d.Event, d.Alerts[i].Subject}
		fresh = fresh && !(*t)[k]
		(*t)[k] = true
	}
	return fresh
}

func (o *outbox) count(destination string) (n int) {
	for _, m := range o.messages {
		if m.To[destination] != nil {
			n++
		}
	}
	return n
}

// done takes a message off a destination's list.
func (o *outbox) done(m *Message, destination string) {
	delete(m.To, destination)
	if len(m.To) == 0 {
		o.messages = slices.DeleteFunc(o.messages, func(x *Message) bool { return x == m })
	}
}

// giveUp is done for one that did not get there.
func (o *outbox) giveUp(m *Message, destination string, now time.Time, why string) GivenUp {
	g := GivenUp{ID: m.ID, Type: m.Type, Destination: destination, Written: m.Time, At: now.UTC(),
		Why: plain(why, maxError)}
	o.givenUp = append(o.givenUp, g)
	if n := len(o.givenUp) - maxGivenUp; n > 0 {
		o.givenUp = slices.Delete(o.givenUp, 0, n)
	}
	o.done(m, destination)
	return g
}

// keepOnly gives up what waits for destinations that are none any more.
func (o *outbox) keepOnly(known func(destination string) bool, now time.Time) (lost []GivenUp) {
	for _, m := range slices.Clone(o.messages) {
		for destination := range m.To {
			if !known(destination) {
				lost = append(lost, o.giveUp(m, destination, now, "the configuration does not have its destination any more"))
			}
		}
	}
	for destination := range o.disabled {
		if !known(destination) {
			delete(o.disabled, destination)
		}
	}
	return lost
}
