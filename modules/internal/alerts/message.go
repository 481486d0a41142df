package alerts

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// maxListed is how many alerts a message about several of them lists.
const maxListed = 100

// Message is what destinations get.
type Message struct {
	// ID is the same whenever it is sent: receivers know by it what they have already.
	ID   string    `json:"id"`
	Type string    `json:"type"` // "provider_down.raised"
	Time time.Time `json:"time"`
	// Body is what is posted: {"type", "timestamp", "data"}, data being Data.
	Body json.RawMessage `json:"body"`
	// To are the destinations that have not got it yet, by their keys.
	To map[string]*Delivery `json:"to"`
	// Account is the account whose owner it is for; "": it is for operators.
	Account string `json:"account_id,omitempty"`

	onDisk  bool            // the file has it
	reached map[string]bool // of an owner's addresses, those that have it; of its courier
}

func (m *Message) reach(address string) {
	if m.reached == nil {
		m.reached = make(map[string]bool)
	}
	m.reached[address] = true
}

// Delivery is how far a message has come on its way to a destination.
type Delivery struct {
	Attempts int       `json:"attempts,omitempty"`
	Refused  int       `json:"refused,omitempty"` // of these, those whose answer was about the message itself
	Next     time.Time `json:"next"`              // when it is tried
	Error    string    `json:"error,omitempty"`   // why the last attempt came to nothing
}

// payload is what is posted.
type payload struct {
	Type string    `json:"type"`
	Time time.Time `json:"timestamp"`
	Data Data      `json:"data"`
}

// Data is what a message says.
type Data struct {
	Event    string `json:"event"`
	State    State  `json:"state"`
	Severity string `json:"severity"`
	// About is "account" where it concerns who has an account, and "operator" else.
	About   string `json:"about"`
	Gateway string `json:"gateway"` // the machine's name
	// Count is how many alerts it is about, and Alerts are those, at most 100 of them.
	Count  int    `json:"count"`
	Alerts []Item `json:"alerts"`
}

// Item is one alert of a message.
type Item struct {
	// Subject is what it is about: a provider, a route, a host, a folder; of an account its id, and Name its name.
	Subject string         `json:"subject,omitempty"`
	Name    string         `json:"name,omitempty"`
	Title   string         `json:"title,omitempty"` // of what is for an owner
	Text    string         `json:"text"`
	Next    string         `json:"next,omitempty"`
	Since   time.Time      `json:"since"`
	Data    map[string]any `json:"data,omitempty"`
}

// label is what people call what it is about.
func (i *Item) label() string {
	switch {
	case i.Name != "":
		return i.Name
	case i.Subject != "":
		return i.Subject
	}
	return "the gateway"
}

// write makes the message of a note. Its id follows from what it is about and since when.
func (n *note) write(gateway string, now time.Time) (*Message, error) {
	d := Data{Event: n.event.Name, State: n.state, Severity: string(n.event.Severity), About: "operator",
		Gateway: plain(gateway, maxText), Count: len(n.alerts)}
	if n.event.Account {
		d.About = "account"
	}
	id := sha256.New()
	fmt.Fprintf(id, "%s\x00%s\x00%s\x00", gateway, n.event.Name, n.state)
	for i := range n.alerts {
		a := &n.alerts[i]
		fmt.Fprintf(id, "%s\x00%d\x00%d\x00", a.Subject, a.Since.UnixNano(), a.Reminded)
		if i >= maxListed {
			continue
		}
		item := Item{Subject: plain(a.Subject, maxText), Name: a.Name, Text: a.Text, Since: a.Since, Data: a.Data}
		if n.state != Resolved {
			item.Next = a.Next
		}
		d.Alerts = append(d.Alerts, item)
	}
	return newMessage(idOf(id.Sum(nil)), now, d)
}

func idOf(digest []byte) string {
	return "msg_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(digest[:15]))
}

func newMessage(id string, now time.Time, d Data) (*Message, error) {
	now = now.UTC().Truncate(time.Millisecond) // many a receiver reads no more digits
	for i := range d.Alerts {
		d.Alerts[i].Since = d.Alerts[i].Since.UTC().Truncate(time.Millisecond)
	}
	m := &Message{ID: id, Type: d.Event + "." + string(d.State), Time: now}
	if d.State == "" {
		m.Type = d.Event
	}
	var err error
	if m.Body, err = json.Marshal(payload{m.Type, now, d}); err != nil {
		return nil, fmt.Errorf("writing a message of alerts: %w", err)
	}
	return m, nil
}

// data is what a message says, for those who write it for people.
func (m *Message) data() (d Data, err error) {
	var p payload
	err = json.Unmarshal(m.Body, &p)
	return p.Data, err
}
