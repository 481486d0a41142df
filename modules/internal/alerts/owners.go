package alerts

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/fareway/fareway/config"
)

// What is about an account its owner is mailed, too, in other words and by messages of their own: each about one
// account and one event, so that nobody reads what is another one's. A message has the account's id; the addresses are
// read when it is sent, and stand in no file, log or error of this package.

const (
	ownersPrefix = "owners "
	// ownerMailsADay is how many mails an owner gets of one event within a day, from one process. Whoever has stolen a
	// key can have an alert come and go.
	ownerMailsADay = 4
	// ownerMailEvery is the least time between two mails to owners: a mail server takes many at once for spam.
	ownerMailEvery = time.Second
)

// ForOwner is what is said to the owner of an account.
type ForOwner struct {
	Title string `json:"title"` // a few words: the mail's subject
	Text  string `json:"text"`  // a sentence or two
	Next  string `json:"next,omitempty"`
}

// tellOwners returns what owners are to be told: that an alert is raised, and that it is over where whoever looks says
// that they want to know (Seen.Over). hears reports whether owners are told of an event.
func (w *watch) tellOwners(now time.Time, hears func(event string) bool) (notes []note) {
	maps.DeleteFunc(w.mailed, func(k alertKey, times []time.Time) bool {
		times = slices.DeleteFunc(times, func(t time.Time) bool { return t.After(now) || now.Sub(t) >= 24*time.Hour })
		w.mailed[k] = times
		return len(times) == 0
	})
	over := w.overForOwners
	w.overForOwners = nil
	for i := range config.AlertEvents {
		event := &config.AlertEvents[i]
		if !event.Account || !hears(event.Name) {
			continue
		}
		for j := range over {
			if over[j].Event == event.Name && w.mayMail(alertKey{event.Name, over[j].Subject}, now) {
				notes = append(notes, note{event, Resolved, over[j : j+1]})
			}
		}
		for _, subject := range w.subjects(event.Name) {
			k := alertKey{event.Name, subject}
			a := w.alerts[k]
			if a.Owner == nil || a.OwnerTold != nil || !w.isOurs(a, event) || !w.mayMail(k, now) {
				continue
			}
			a.OwnerTold = &now
			notes = append(notes, note{event, Raised, []Alert{*a}})
		}
	}
	return notes
}

// mayMail counts a mail of the last day, or reports that there were enough.
func (w *watch) mayMail(k alertKey, now time.Time) bool {
	if len(w.mailed[k]) >= ownerMailsADay {
		return false
	}
	w.mailed[k] = append(w.mailed[k], now)
	return true
}

// writeForOwner makes the message of a note to an owner.
func (n *note) writeForOwner(gateway string, now time.Time) (*Message, error) {
	a := &n.alerts[0]
	id := sha256.New()
	fmt.Fprintf(id, "owner\x00%s\x00%s\x00%s\x00%s\x00%d", gateway, n.event.Name, n.state, a.Subject, a.Since.UnixNano())
	d := Data{Event: n.event.Name, State: n.state, Severity: string(n.event.Severity), About: "account", Count: 1,
		Alerts: []Item{{Subject: a.Subject, Name: a.Name, Title: a.Owner.Title, Text: a.Owner.Text, Next: a.Owner.Next,
			Since: a.Since}}}
	m, err := newMessage(idOf(id.Sum(nil)), now, d)
	if m != nil {
		m.Account = a.Subject
	}
	return m, err
}

// ownerMailer mails each message to the owners of its account, to each address by itself.
type ownerMailer struct {
	mailer
	addresses func(ctx context.Context, account string) ([]string, error)
}

func (*ownerMailer) batch() int           { return 1 }
func (*ownerMailer) pause() time.Duration { return ownerMailEvery }

// send sends one message. What a server says of an address is about that alone; what it says before is about the
// server.
func (m *ownerMailer) send(ctx context.Context, messages []*Message, now time.Time) (out Outcome) {
	start := time.Now()
	defer func() { out.Took = time.Since(start) }()
	message := messages[0]
	addresses, err := m.addresses(ctx, message.Account)
	switch {
	case err != nil:
		return Outcome{Error: "the account cannot be read", Alone: true}
	case len(addresses) == 0:
		return Outcome{Error: "the account has no mail address any more", Alone: true, Refused: true}
	}
	client, err := m.client(ctx)
	if err != nil {
		return Outcome{Error: plain(err.Error(), maxError)}
	}
	conn, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return m.failed(ctx, err)
	}
	defer func() { _ = client.CloseWithSMTPClient(conn) }()
	out.TLS = versionOf(conn)
	var refused []string
	again := false
	for i, address := range addresses {
		if message.reached[address] {
			continue
		}
		text, err := m.writeForOwner(message, now, address)
		if err == nil {
			err = client.SendWithSMTPClient(conn, text)
		}
		if err == nil {
			message.reach(address)
			continue
		}
		one, isItsOwn := m.judge(ctx, err)
		if !isItsOwn {
			one.TLS = out.TLS
			return one
		}
		out.Status, again = one.Status, again || !one.Refused
		refused = append(refused, fmt.Sprintf("address %d of %d: %s", i+1, len(addresses), one.Error))
	}
	out.Error = plain(strings.Join(refused, "; "), maxError)
	switch {
	case again || len(message.reached) == 0:
		out.Alone, out.Refused = true, !again
	default:
		out.Delivered, out.Status = true, 250
	}
	return out
}

// judge says what an error of sending means, without the server's words, which may have the address in them, and
// whether it is about the address alone.
func (m *ownerMailer) judge(ctx context.Context, err error) (out Outcome, isItsOwn bool) {
	sent, ok := errors.AsType[*gomail.SendError](err)
	if !ok || ctx.Err() != nil {
		return Outcome{Error: whyUnsent(ctx, errors.New("the connection to the mail server broke"))}, false
	}
	out = m.failed(ctx, err)
	out.Error = strings.TrimSpace(fmt.Sprintf("the mail server answered %d %s, %s", out.Status, sent.EnhancedStatusCode(),
		sent.Reason))
	switch {
	case sent.Reason == gomail.ErrSMTPRcptTo && !strings.HasPrefix(sent.EnhancedStatusCode(), "5.7"):
		out.Refused = out.Status >= 500
		return out, out.Status > 0
	case out.Refused: // of its text
		return out, true
	}
	return out, false // 5.7: nobody may send by this server, or not from here
}

// writeForOwner makes the mail, for one address.
func (m *ownerMailer) writeForOwner(message *Message, now time.Time, address string) (*gomail.Msg, error) {
	d, err := message.data()
	if err == nil && len(d.Alerts) == 0 {
		err = errors.New("it is about nothing")
	}
	if err != nil {
		return nil, fmt.Errorf("reading a message: %w", err)
	}
	item := &d.Alerts[0]
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", item.Text)
	if item.Next != "" {
		fmt.Fprintf(&b, "\n%s\n", item.Next)
	}
	if d.State == Raised {
		fmt.Fprintf(&b, "\nIt is so since %s.\n", item.Since.UTC().Format("2006-01-02 15:04 UTC"))
	}
	fmt.Fprintf(&b, "\n-- \nYou get this mail because your address belongs to the account %s. Whoever runs the service "+
		"changes that.\n", item.label())
	return m.compose(item.Title, b.String(), m.messageID([]*Message{message}), now, address)
}

// hearingOwners is the destination of owners that a block mail makes, and whether it makes one.
func hearingOwners(m *config.Mail, addresses func(context.Context, string) ([]string, error)) (d destination, ok bool) {
	if !m.Accounts || addresses == nil {
		return d, false
	}
	d = destination{key: ownersPrefix + m.Name, kind: "owners", name: m.Name,
		address: "each account's own by " + m.Server(), digest: m.Digest(), hears: m.HearOwners, owners: true,
		timeout: m.Timeout, sender: &ownerMailer{mailer{m}, addresses}}
	for _, event := range config.AccountEventNames() {
		if m.HearOwners(event) {
			d.events = append(d.events, event)
		}
	}
	return d, true
}
