package alerts

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"

	"github.com/fareway/fareway/config"
)

// Tested is what came of a test of a destination.
type Tested struct {
	Destination string `json:"destination"`
	Kind        string `json:"kind"`
	Name        string `json:"name"`
	Address     string `json:"address"`
	MessageID   string `json:"message_id"`
	TookMS      int64  `json:"took_ms"`
	Outcome
}

// TestOf says what is tested.
type TestOf struct {
	// Name is that of the destinations, "" for all.
	Name string
	// Account is whose owner is sent the test, by its id, with what it is called; "": the operators' destinations are.
	Account, AccountName string
}

// Test sends a message of type "test" to destinations, at once and beside the outbox. One that takes it is told again
// of what it waits for.
func (s *Service) Test(ctx context.Context, of TestOf) ([]Tested, error) {
	all := s.destinations(s.o.Config())
	known := len(all)
	if of.Name != "" {
		all = slices.DeleteFunc(all, func(d destination) bool { return d.name != of.Name && d.key != of.Name })
	}
	named := len(all)
	all = slices.DeleteFunc(all, func(d destination) bool { return d.owners != (of.Account != "") })
	switch {
	case known == 0:
		return nil, fmt.Errorf("%w: the configuration has no block alerts with a webhook or mail in it", ErrUnknown)
	case named == 0:
		return nil, fmt.Errorf("%w: the configuration has no webhook and no mail %q in its block alerts", ErrUnknown, of.Name)
	case len(all) == 0 && of.Account != "":
		return nil, fmt.Errorf("%w: no mail there has accounts = true, so that no account's owner is mailed", ErrUnknown)
	case len(all) == 0:
		return nil, fmt.Errorf("%w: it is for accounts' owners: `fareway gateway hook test --account NAME` mails one of them",
			ErrUnknown)
	}
	results := make([]Tested, len(all))
	var testing sync.WaitGroup
	for i := range all {
		testing.Go(func() { results[i] = s.test(ctx, &all[i], &of) })
	}
	testing.Wait()
	return results, nil
}

func (s *Service) test(ctx context.Context, d *destination, of *TestOf) Tested {
	var random [15]byte
	_, _ = rand.Read(random[:]) // it never fails
	now := s.o.Now().UTC()
	t := Tested{Destination: d.key, Kind: d.kind, Name: d.name, Address: d.address}
	data := Data{Event: "test", Severity: string(config.AlertTicket), About: "operator",
		Gateway: plain(s.o.Gateway, maxText), Count: 1, Alerts: []Item{{Since: now,
			Text: "This is a test: somebody has run `fareway gateway hook test`.", Next: "There is nothing to do."}}}
	if d.owners {
		name := plain(of.AccountName, maxText)
		data.About, data.Gateway = "account", ""
		data.Alerts = []Item{{Subject: of.Account, Name: name, Since: now, Title: "A test for your account " + name,
			Text: "This is a test: mails about your account " + name + " reach you.", Next: "There is nothing to do."}}
	}
	m, err := newMessage(idOf(random[:]), now, data)
	if err != nil {
		t.Error = err.Error()
		return t
	}
	t.MessageID, m.Account = m.ID, of.Account
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	t.Outcome = d.send(ctx, []*Message{m}, s.o.Now())
	t.TookMS = t.Took.Milliseconds()
	if t.Delivered {
		s.mu.Lock()
		s.outbox.forgive(d.key, s.o.Now())
		if c := s.couriers[d.key]; c != nil {
			c.wakeUp()
		}
		s.mu.Unlock()
		s.save()
	}
	return t
}
