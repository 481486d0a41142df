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

// undelivered is the event of a destination that takes nothing.
const undelivered = "alerts_undelivered"

const (
	fileName = "alerts.json"
	// maxMessages bounds the messages that wait, and those for accounts' owners apart: the oldest is given up for a new
	// one.
	maxMessages = 500
	// maxGivenUp is how many that were not delivered are remembered.
	maxGivenUp = 50
	// keepFor is how long a message is tried.
	keepFor = 75 * time.Hour
	// forgetAfter is after how long a destination that has failed is taken to be well, where nothing waits for it.
	forgetAfter = 24 * time.Hour
)

// outbox has the messages that wait for their destinations, in the order in which they were written, and what they are
// about. It is one file, written whole, so that an alert is never told and forgotten, or told twice, by a crash; what
// was sent and not yet written down is sent again under the same id. It needs neither the ledger nor a request.
type outbox struct {
	path  string
	write func(path string, content []byte) error

	messages []*Message
	disabled map[string]Disabled // by destination
	troubles map[string]*trouble // likewise
	givenUp  []GivenUp
	unsaved  error // why the file is not what is here
}

// trouble is that a destination's attempts fail.
type trouble struct {
	since    time.Time
	failures int       // in a row
	rest     time.Time // until when it is not tried
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
	Account     string    `json:"account_id,omitempty"` // whose owner it was for
	Written     time.Time `json:"written"`
	At          time.Time `json:"at"`
	Why         string    `json:"why"`
}

// kept is what the file has.
type kept struct {
	Version  int                 `json:"version"`
	Alerts   []*Alert            `json:"alerts"` // raised
	Over     []Alert             `json:"over,omitempty"`
	Owners   []Alert             `json:"over_for_owners,omitempty"`
	Messages []*Message          `json:"messages"`
	Disabled map[string]Disabled `json:"disabled,omitempty"`
	GivenUp  []GivenUp           `json:"given_up,omitempty"`
}

const fileVersion = 1

// errUnread: the file may be as good as ever.
var errUnread = errors.New("the outbox of alerts cannot be read")

func newOutbox(dir string) *outbox {
	return &outbox{path: filepath.Join(dir, fileName), write: writeFile, disabled: make(map[string]Disabled),
		troubles: make(map[string]*trouble)}
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
	w.overForOwners = k.Owners
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
	for _, m := range o.messages { // destinations that failed before go on from there
		for key, d := range m.To {
			if d.Attempts > 0 && m.Account == "" && o.troubles[key] == nil {
				o.troubles[key] = &trouble{since: m.Time, failures: d.Attempts}
			}
		}
	}
	return nil
}

// encode is what the file is to have.
func (o *outbox) encode(w *watch) ([]byte, error) {
	k := kept{Version: fileVersion, Alerts: []*Alert{}, Messages: o.messages, Disabled: o.disabled, GivenUp: o.givenUp,
		Owners: w.overForOwners}
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
	var alike []*Message // those for accounts' owners push out none of the operator's
	for _, other := range o.messages {
		if (other.Account == "") == (m.Account == "") {
			alike = append(alike, other)
		}
	}
	for _, oldest := range alike[:max(len(alike)-maxMessages, 0)] {
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

// hasAny reports whether anything that a message is about is there.
func (t topics) hasAny(d *Data) bool {
	return slices.ContainsFunc(d.Alerts, func(i Item) bool { return t[alertKey{d.Event, i.Subject}] })
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

// due are the messages for a destination that are to be delivered now, at most batch. Where there are none, wait is
// when there may be; 0: when there are new ones.
func (o *outbox) due(destination string, batch int, now time.Time) (messages []*Message, wait time.Duration) {
	if _, disabled := o.disabled[destination]; disabled {
		return nil, 0
	}
	until := func(t time.Time, longest time.Duration) time.Duration {
		if d := t.Sub(now); d <= 2*longest {
			return max(d, 0)
		}
		return 0 // the clock was turned back
	}
	if t := o.troubles[destination]; t != nil {
		if rest := until(t.rest, freshly); rest > 0 {
			return nil, rest
		}
	}
	var left topics // what waits is about these: nothing newer about one of them is sent before
	for _, m := range o.inTurn(destination) {
		d, err := m.data()
		if pause := until(m.To[destination].Next, pauses[len(pauses)-1]); pause > 0 {
			left.add(&d)
			if wait == 0 || pause < wait {
				wait = pause
			}
			continue
		}
		// One that was refused goes alone: it may be what those with it were refused for. And one that is not on the disk
		// does not go yet: a crash would forget it, and tell it again under another id.
		alone := len(messages) > 0 && (m.To[destination].Refused > 0 || messages[0].To[destination].Refused > 0)
		if alone || len(messages) == batch || !m.onDisk && o.unsaved == nil || err == nil && left.hasAny(&d) {
			left.add(&d)
			continue
		}
		messages = append(messages, m)
	}
	if len(messages) > 0 {
		return messages, 0
	}
	return nil, wait
}

// settle notes what came of an attempt to deliver messages to a destination, whose block has the digest.
func (o *outbox) settle(destination, digest string, messages []*Message, out *Outcome, now time.Time) (lost []GivenUp) {
	switch {
	case out.Delivered:
		if o.troubles[destination] != nil {
			o.recover(destination, now)
		}
		for _, m := range messages {
			o.done(m, destination)
		}
		return nil
	case !out.Alone:
		t := o.troubles[destination]
		if t == nil {
			t = &trouble{since: now}
			o.troubles[destination] = t
		}
		t.failures++
		rest := pauses[0]
		if t.failures > stuckAfter { // it is not the one message
			rest = freshly
		}
		t.rest = now.Add(min(max(out.After, rest), freshly))
		if out.Gone {
			o.disabled[destination] = Disabled{Why: "it answered that it is gone (410)", Since: now.UTC(), Digest: digest}
		}
	}
	for _, m := range messages {
		lost = append(lost, o.noteFailed(m, destination, out, len(messages) == 1, now)...)
	}
	return lost
}

// noteFailed notes of a message that an attempt has failed, of it alone or of several.
func (o *outbox) noteFailed(m *Message, destination string, out *Outcome, single bool, now time.Time) []GivenUp {
	d := m.To[destination]
	if d == nil {
		return nil // it was given up meanwhile
	}
	d.Attempts++
	d.Error = plain(out.Error, maxError)
	pause := pauseAfter(d.Attempts, jitter)
	switch {
	case out.After > 0:
		pause = min(max(out.After, pauses[0]), longestWish)
	case out.Refused && !single:
		pause = 0 // alone
	}
	d.Next = now.Add(pause)
	if !out.Refused {
		return nil
	}
	if d.Refused++; single && (d.Refused >= maxRefused || out.Alone) {
		return []GivenUp{o.giveUp(m, destination, now, out.Error)}
	}
	return nil
}

// expire gives up what was tried for too long.
func (o *outbox) expire(now time.Time) (lost []GivenUp) {
	for _, m := range slices.Clone(o.messages) {
		if now.Sub(m.Time) < keepFor {
			continue
		}
		for key, d := range m.To {
			if _, disabled := o.disabled[key]; !disabled && d.Attempts < stuckAfter {
				continue // the clock has jumped, or the gateway was away
			}
			lost = append(lost, o.giveUp(m, key, now, "it was tried for three days: "+cmp.Or(d.Error, "never")))
		}
	}
	return lost
}

// forgive has a destination tried at once.
func (o *outbox) forgive(destination string, now time.Time) {
	o.recover(destination, now)
	delete(o.disabled, destination)
}

// recover forgets that a destination has failed: what waits for it is tried at once.
func (o *outbox) recover(destination string, now time.Time) {
	delete(o.troubles, destination)
	for _, m := range o.messages {
		if d := m.To[destination]; d != nil && d.Next.After(now) {
			d.Next = now
		}
	}
}

// findTroubled finds the destinations that take nothing. One that has failed, and for which nothing was written for a
// day since, may be as well as any: with the next message it is known.
func (o *outbox) findTroubled(now time.Time) (found []Finding) {
	for key, d := range o.disabled {
		found = append(found, Finding{Subject: key, Text: "The destination " + key + " of alerts is told nothing any more: " +
			d.Why + ".", Next: "`fareway gateway hook test` tries it again."})
	}
	for key, t := range o.troubles {
		if _, disabled := o.disabled[key]; disabled {
			continue
		}
		why := "the last message for it was given up"
		if m := o.waiting(key, 1); len(m) > 0 {
			why = m[0].To[key].Error
		} else if now.Sub(t.rest) >= forgetAfter {
			delete(o.troubles, key)
			continue
		}
		found = append(found, Finding{Subject: key, Text: fmt.Sprintf("The destination %s of alerts takes no messages: %s.",
			key, why), Data: map[string]any{"waiting": o.count(key)},
			Next: "`fareway gateway hook test` tries it now, and says what comes back."})
	}
	return found
}

// giveUp is done for one that did not get there.
func (o *outbox) giveUp(m *Message, destination string, now time.Time, why string) GivenUp {
	g := GivenUp{ID: m.ID, Type: m.Type, Destination: destination, Account: m.Account, Written: m.Time, At: now.UTC(),
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
	maps.DeleteFunc(o.disabled, func(destination string, _ Disabled) bool { return !known(destination) })
	return lost
}
