package spool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"sync"
	"time"
)

// AsidePath is where the aside of the spool at a path is.
func AsidePath(spool string) string { return spool + ".aside" }

var (
	// ErrUnknown: nothing with this id was kept aside.
	ErrUnknown = errors.New("unknown id")
	// ErrDecided: an operator has decided about it before.
	ErrDecided = errors.New("decided already")
)

// Kind says why something was kept aside.
type Kind string

const (
	// Damaged: a part of the spool, or of the aside itself, cannot be read.
	Damaged Kind = "damaged"
	// UnknownRequest: the ledger does not know the settlement's request. It is an older copy, perhaps.
	UnknownRequest Kind = "unknown_request"
	// Refused: the ledger refused the settlement. The request is free until it is decided.
	Refused Kind = "refused"
	// Differs: the request was settled before, for less.
	Differs Kind = "differs"
)

// Item is something that was kept aside. It has a Record or a Damage.
type Item struct {
	ID       string    `json:"id"` // "aside_" and 16 lower-case hex characters
	Kind     Kind      `json:"kind"`
	Why      string    `json:"why"` // for people
	Time     time.Time `json:"time,omitzero"`
	Record   *Record   `json:"record,omitempty"`
	Damage   *Damage   `json:"damage,omitempty"`
	Decision *Decision `json:"-"` // nil: an operator has yet to decide
}

// Decision is what became of an item.
type Decision struct {
	ID         string    `json:"id"`
	Outcome    Outcome   `json:"outcome"`
	Time       time.Time `json:"time"`
	Actor      string    `json:"actor"`
	Reason     string    `json:"reason,omitempty"`
	Microcents int64     `json:"microcents,omitempty"` // that its account was charged by this decision
	// Booked: the ledger has it on its audit trail, with the item's id as the subject. A ledger that has not is another
	// copy, for which the item is yet to be decided. Decisions of before are taken for booked.
	Booked bool `json:"booked,omitempty"`
}

// Reopened is the item for a ledger in which it was not decided.
func (i Item) Reopened() Item {
	d := i.Decision
	i.Why += fmt.Sprintf("; it was %s by %s on %s, in another copy of the ledger", d.Outcome, d.Actor,
		d.Time.UTC().Format(time.DateTime))
	i.Decision = nil
	return i
}

// Outcome is what was decided.
type Outcome string

const (
	Applied   Outcome = "applied"
	Discarded Outcome = "discarded"
)

// Aside is the file of what the spool had and nobody could apply: lines that only get more, each the CRC-32C of its
// JSON in hexadecimal, a space, and {"item": Item} or {"decision": Decision}. There is no file until there is an
// item. Its methods may be called concurrently.
type Aside struct {
	sys  system
	path string

	mu    sync.Mutex
	file  disk // nil until something is written
	size  int64
	ended bool // by a line's end
	items []Item
	index map[string]int
	fresh []string // the ids of what was found damaged when the spool was opened
}

// line is one of the file.
type line struct {
	Item     *Item     `json:"item,omitempty"`
	Decision *Decision `json:"decision,omitempty"`
}

// ReadAside reads the aside at a path without a change, beside a gateway or without one. Without a file there are
// no items.
func ReadAside(path string) ([]Item, error) {
	a, err := openAside(machine{}, path)
	if err != nil {
		return nil, err
	}
	return a.Items(), nil
}

// Inspect looks at the spool at a path, which nobody has open, without a change: the settlements in it, of which the
// ledger may have some, and what is damaged in it and not yet kept aside. Without a file there is nothing.
func Inspect(path string) (records []Record, damaged []Item, err error) {
	content, err := readIfAny(machine{}, path)
	if content == nil || err != nil {
		return nil, nil, err
	}
	f, err := scan(content, machine{}.Boot())
	if err != nil {
		return nil, nil, fmt.Errorf("reading the spool %s: %w", path, err)
	}
	kept, err := ReadAside(AsidePath(path))
	if err != nil {
		return nil, nil, err
	}
	for _, d := range f.damages {
		item := damageItem(path, d)
		if !slices.ContainsFunc(kept, func(i Item) bool { return i.ID == item.ID }) {
			damaged = append(damaged, item)
		}
	}
	return f.records, damaged, nil
}

func openAside(sys system, path string) (*Aside, error) {
	content, err := readIfAny(sys, path)
	if err != nil {
		return nil, fmt.Errorf("reading what was kept aside: %w", err)
	}
	a := &Aside{sys: sys, path: path, size: int64(len(content)), ended: true, index: make(map[string]int)}
	for offset := 0; offset < len(content); {
		text, _, ended := bytes.Cut(content[offset:], []byte("\n"))
		a.ended = ended
		a.take(text, int64(offset))
		offset += len(text) + 1
	}
	return a, nil
}

// take reads a line. One that cannot be read is an item itself.
func (a *Aside) take(text []byte, offset int64) {
	l, ok := parseLine(text)
	switch {
	case ok && l.Item != nil:
		a.add(*l.Item)
	case ok && l.Decision != nil:
		if i, ok := a.index[l.Decision.ID]; ok {
			a.items[i].Decision = l.Decision
		}
	case len(text) > 0:
		d := Damage{Offset: offset, Bytes: bytes.Clone(text), Requests: requestsIn(text)}
		d.what = "a line of the aside is damaged"
		a.add(damageItem(a.path, d))
	}
}

func parseLine(text []byte) (l line, ok bool) {
	sum, payload, _ := bytes.Cut(text, []byte(" "))
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil || uint32(want) != crc32.Checksum(payload, castagnoli) || json.Unmarshal(payload, &l) != nil {
		return line{}, false
	}
	return l, true
}

func (a *Aside) add(item Item) {
	if _, there := a.index[item.ID]; there {
		return
	}
	a.index[item.ID] = len(a.items)
	a.items = append(a.items, item)
}

// Path is the file's.
func (a *Aside) Path() string { return a.path }

// Items are all that were kept aside, oldest first, those that are decided too.
func (a *Aside) Items() []Item {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.items)
}

// Reopen makes the items with these ids undecided, for the ledger does not know what was decided. The file stays as it
// is.
func (a *Aside) Reopen(ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if i, ok := a.index[id]; ok && a.items[i].Decision != nil {
			a.items[i] = a.items[i].Reopened()
		}
	}
}

// FoundDamaged are the ids of what was found damaged in the spool when it was opened, and not before.
func (a *Aside) FoundDamaged() []string { return a.fresh }

// Undecided is how many items wait for an operator's decision.
func (a *Aside) Undecided() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var n int64
	for i := range a.items {
		if a.items[i].Decision == nil {
			n++
		}
	}
	return n
}

// Find is the item with an id; ErrUnknown, and ErrDecided for one that is decided.
func (a *Aside) Find(id string) (Item, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.find(id)
}

func (a *Aside) find(id string) (Item, error) {
	i, ok := a.index[id]
	if !ok {
		return Item{}, fmt.Errorf("%w: %q", ErrUnknown, id)
	}
	item := a.items[i]
	if d := item.Decision; d != nil {
		return item, fmt.Errorf("%w: %s was %s by %s on %s", ErrDecided, id, d.Outcome, d.Actor,
			d.Time.UTC().Format(time.DateTime))
	}
	return item, nil
}

// Keep keeps a record aside. It is on the disk when Keep returns nil; one that is there already stays as it is.
// fresh is false for that.
func (a *Aside) Keep(kind Kind, why string, r Record, now time.Time) (item Item, fresh bool, err error) {
	payload, err := r.encodeJSON()
	if err != nil {
		return item, false, err
	}
	item = Item{ID: itemID(payload), Kind: kind, Why: why, Time: now.UTC(), Record: &r}
	a.mu.Lock()
	defer a.mu.Unlock()
	if i, there := a.index[item.ID]; there {
		return a.items[i], false, nil
	}
	if err := a.write(line{Item: &item}); err != nil {
		return item, false, fmt.Errorf("keeping the settlement of request %q aside: %w", r.Settlement.Request, err)
	}
	a.add(item)
	return item, true, nil
}

// keepDamages keeps what is damaged in a spool, each once.
func (a *Aside) keepDamages(path string, damages []Damage) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range damages {
		item := damageItem(path, d)
		if _, there := a.index[item.ID]; there {
			continue
		}
		if err := a.write(line{Item: &item}); err != nil {
			return fmt.Errorf("keeping what is damaged aside: %w", err)
		}
		a.add(item)
		a.fresh = append(a.fresh, item.ID)
	}
	return nil
}

func damageItem(path string, d Damage) Item {
	content := fmt.Appendf(nil, "%x %d %d %d %s ", d.file, d.Offset, d.Lost, len(d.Bytes), d.what)
	return Item{ID: itemID(append(content, d.Bytes...)), Kind: Damaged, Why: d.what,
		Damage: &Damage{File: path, Offset: d.Offset, Bytes: d.Bytes, Lost: d.Lost, Requests: d.Requests}}
}

func itemID(content []byte) string {
	sum := sha256.Sum256(content)
	return "aside_" + hex.EncodeToString(sum[:8])
}

// Decide records what became of an item. It is on the disk when Decide returns nil.
func (a *Aside) Decide(d Decision) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.find(d.ID); err != nil {
		return err
	}
	d.Time = d.Time.UTC()
	if err := a.write(line{Decision: &d}); err != nil {
		return fmt.Errorf("recording what was decided about %s: %w", d.ID, err)
	}
	a.items[a.index[d.ID]].Decision = &d
	return nil
}

// write puts a line behind the others and syncs it.
func (a *Aside) write(l line) error {
	payload, err := json.Marshal(l)
	if err != nil {
		return err
	}
	text := fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(payload, castagnoli), payload)
	if !a.ended {
		text = append([]byte("\n"), text...) // what was torn stays a line of its own
	}
	if a.file == nil {
		if err := a.open(); err != nil {
			return err
		}
	}
	if err := put(a.file, text, a.size); err != nil {
		return err // the next line takes its place
	}
	a.size, a.ended = a.size+int64(len(text)), true
	return nil
}

func (a *Aside) open() (err error) {
	if a.size > 0 {
		a.file, err = a.sys.Open(a.path)
		return err
	}
	a.file, err = install(a.sys, a.path, nil)
	return err
}

// Close closes the file.
func (a *Aside) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return nil
	}
	err := a.file.Close()
	a.file = nil
	return err
}
