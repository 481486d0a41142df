package alerts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

// accountLow is that the balance of an account is low, for its operator and for its owner.
func accountLow(name string) Finding {
	return Finding{Subject: "acct_" + name, Name: name, Text: "The balance of " + name + " is 3 credits.",
		Next: "`fareway gateway credit add` tops it up.",
		Owner: &ForOwner{Title: "The balance of your account " + name + " is low", Text: "Your account " + name +
			" has 3 credits.", Next: "Ask for more."}}
}

// ownersOf is a configuration that mails owners by a server.
func ownersOf(p *post) config.Alerts {
	block := p.block(config.MailStartTLS)
	block.To, block.Accounts = nil, true
	return config.Alerts{Mails: []config.Mail{block}}
}

// mailTo is the mail that an address got: its subject and its text.
func (p *post) mailsTo(t *testing.T, address string) (subjects, texts []string) {
	t.Helper()
	for _, l := range p.received() {
		if !slices.Contains(l.to, address) {
			continue
		}
		require.Equal(t, []string{address}, l.to, "each address has a mail of its own")
		read, err := mail.ReadMessage(strings.NewReader(l.text))
		require.NoError(t, err)
		require.Contains(t, read.Header.Get("To"), address)
		subject, err := new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject"))
		require.NoError(t, err)
		text, err := io.ReadAll(quotedprintable.NewReader(read.Body))
		require.NoError(t, err)
		subjects, texts = append(subjects, subject), append(texts, string(text))
	}
	return subjects, texts
}

// TestOwnersAreTold each of their own account, in words for them; that it is over only where they are to hear of that;
// and their addresses stand in no file and no log.
func TestOwnersAreTold(t *testing.T) {
	t.Parallel()
	p, dir := openPost(t, config.MailStartTLS), t.TempDir()
	b := newBench(t, dir, ownersOf(p))
	b.owners = map[string][]string{"acct_ann": {"ann@own.test", "billing@own.test"}, "acct_bob": {"bob@other.test"}}
	plainOne := accountLow("zed") // it has no address
	plainOne.Owner = nil
	reached := accountLow("bob")
	b.finds("balance_low", accountLow("ann"), plainOne)
	b.also("cap_reached", Seen{Findings: []Finding{reached}, Over: map[string]*ForOwner{
		"acct_bob": {Title: "Your account bob takes requests again", Text: "It does."}}})
	b.begin(t)
	b.untilTrue(t, time.Second, func() bool { return len(p.received()) == 3 })
	for _, address := range []string{"ann@own.test", "billing@own.test"} {
		subjects, texts := p.mailsTo(t, address)
		require.Equal(t, []string{"The balance of your account ann is low"}, subjects)
		require.Contains(t, texts[0], "Your account ann has 3 credits.\r\n\r\nAsk for more.\r\n\r\n"+
			"It is so since 2026-11-27 01:0")
		for _, foreign := range []string{"bob", "zed", "fareway", "desk", "acct_", "@"} {
			require.NotContains(t, texts[0], foreign, "nothing of others, and nothing that is the operator's")
		}
	}
	kept, err := os.ReadFile(filepath.Join(dir, fileName))
	require.NoError(t, err)
	standing, err := json.Marshal(b.Standing())
	require.NoError(t, err)
	// A day later it is still so, which is nothing new; then it is over.
	for range 30 {
		b.clock.Turn(time.Hour)
	}
	b.untilTrue(t, lookEvery, func() bool { return len(b.Standing().Alerts) == 3 })
	require.Len(t, p.received(), 3)
	b.finds("balance_low")
	b.also("cap_reached", Seen{Over: map[string]*ForOwner{
		"acct_bob": {Title: "Your account bob takes requests again", Text: "It does."}}})
	b.untilTrue(t, lookEvery, func() bool { return len(b.Standing().Alerts) == 0 && len(p.received()) == 4 })
	subjects, texts := p.mailsTo(t, "bob@other.test")
	require.Equal(t, []string{"The balance of your account bob is low", "Your account bob takes requests again"}, subjects)
	require.NotContains(t, texts[1], "It is so since")
	b.Close()
	for what, text := range map[string]string{"file": string(kept), "log": b.log.String(), "standing": string(standing)} {
		require.NotContains(t, text, "own.test", what)
		require.NotContains(t, text, "other.test", what)
	}
	require.Contains(t, b.log.String(), "account_id=acct_ann")
}

// TestARefusedOwner: what a server says of an address is about that one alone. Refused for good, the message is given
// up; refused for now, it is tried again, and whoever has it does not get it again. None of it is the destination's
// fault, and no address is in what is said of it.
func TestARefusedOwner(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		refuse    *smtp.SMTPError
		addresses []string
		nobody    string
		want      int // mails to ann, in the end
		lost      bool
	}{
		"for good": {&smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no ann@own.test here"},
			[]string{"ann@own.test"}, "ann@own.test", 0, true},
		"one of two for good": {&smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "x@own.test"},
			[]string{"x@own.test", "ann@own.test"}, "x@own.test", 1, false},
		"one of two for now": {&smtp.SMTPError{Code: 450, EnhancedCode: smtp.EnhancedCode{4, 2, 0}, Message: "greylisted"},
			[]string{"ann@own.test", "x@own.test"}, "x@own.test", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := openPost(t, config.MailStartTLS)
			p.refuse, p.nobody = tc.refuse, tc.nobody
			b := newBench(t, t.TempDir(), ownersOf(p))
			b.owners = map[string][]string{"acct_ann": tc.addresses, "acct_bob": {"bob@other.test"}}
			b.finds("balance_low", accountLow("ann"), accountLow("bob"))
			b.begin(t)
			b.untilTrue(t, time.Second, func() bool {
				bob, _ := p.mailsTo(t, "bob@other.test")
				ann, _ := p.mailsTo(t, "ann@own.test")
				return len(bob) == 1 && len(ann) == tc.want && (!tc.lost || len(b.Standing().GivenUp) == 1)
			})
			if tc.refuse.Code < 500 {
				b.untilTrue(t, time.Second, func() bool { return b.Standing().Destinations[0].Attempts > 1 })
				require.Equal(t, "address 2 of 2: the mail server answered 450 4.2.0, sending SMTP RCPT TO command",
					b.Standing().Destinations[0].Error)
				p.mu.Lock()
				p.refuse = nil
				p.mu.Unlock()
				b.untilTrue(t, time.Minute, func() bool { x, _ := p.mailsTo(t, "x@own.test"); return len(x) == 1 })
				b.untilTrue(t, time.Second, func() bool { return b.Standing().Destinations[0].Waiting == 0 })
			}
			ann, _ := p.mailsTo(t, "ann@own.test")
			require.Len(t, ann, tc.want)
			s := b.Standing()
			require.Nil(t, s.Destinations[0].Failing)
			if tc.lost {
				require.Equal(t, "acct_ann", s.GivenUp[0].Account)
				require.Contains(t, s.GivenUp[0].Why, "the mail server answered 550 5.1.1")
			}
			text, err := json.Marshal(s)
			require.NoError(t, err)
			b.Close()
			require.NotContains(t, string(text)+b.log.String(), "own.test")
		})
	}
}

// TestAnOwnersTextThatIsRefused is given up at once, and is no matter of the others either.
func TestAnOwnersTextThatIsRefused(t *testing.T) {
	t.Parallel()
	p := openPost(t, config.MailStartTLS)
	p.minds = "account ann"
	b := newBench(t, t.TempDir(), ownersOf(p))
	b.owners = map[string][]string{"acct_ann": {"ann@own.test"}, "acct_bob": {"bob@other.test"}}
	b.finds("balance_low", accountLow("ann"), accountLow("bob"))
	b.begin(t)
	b.untilTrue(t, time.Second, func() bool { return len(p.received()) == 1 && len(b.Standing().GivenUp) == 1 })
	s := b.Standing()
	require.Contains(t, s.GivenUp[0].Why, "the mail server answered 554 5.7.1")
	require.Equal(t, "acct_ann", s.GivenUp[0].Account)
	require.Nil(t, s.Destinations[0].Failing)
	require.Zero(t, s.Destinations[0].Waiting)
	b.Close()
	require.Regexp(t, `a message of alerts is given up.* account_id=acct_ann`, b.log.String())
}

// TestAnAddressThatIsSetLater hears of what is so already, though nothing else has changed.
func TestAnAddressThatIsSetLater(t *testing.T) {
	t.Parallel()
	p := openPost(t, config.MailStartTLS)
	b := newBench(t, t.TempDir(), ownersOf(p))
	b.owners = map[string][]string{"acct_ann": {"ann@own.test"}}
	f := accountLow("ann")
	f.Owner = nil
	b.finds("balance_low", f)
	b.begin(t)
	b.untilTrue(t, lookEvery, func() bool { return len(b.Standing().Alerts) == 1 })
	b.clock.Turn(time.Minute)
	b.finds("balance_low", accountLow("ann"))
	b.untilTrue(t, time.Second, func() bool { return len(p.received()) == 1 })
}

// TestAServerThatTakesNoneOfOwners: that it passes nothing on for us is no matter of an address.
func TestAServerThatTakesNoneOfOwners(t *testing.T) {
	t.Parallel()
	p := openPost(t, config.MailStartTLS)
	p.refuse = &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "ann@own.test: relay denied"}
	b := newBench(t, t.TempDir(), ownersOf(p))
	b.owners = map[string][]string{"acct_ann": {"ann@own.test"}}
	b.finds("balance_low", accountLow("ann"))
	b.begin(t)
	b.untilTrue(t, time.Second, func() bool { return b.Standing().Destinations[0].Failing != nil })
	d := b.Standing().Destinations[0]
	require.Equal(t, "owners ops", d.Key)
	require.Equal(t, []string{"balance_low", "cap_near", "cap_reached", "account_suspended", "top_up_failed"}, d.Events)
	require.Contains(t, d.Error, "the mail server answered 554 5.7.1")
	require.NotContains(t, d.Error, "own.test")
	p.mu.Lock()
	p.refuse = nil
	p.mu.Unlock()
	b.untilTrue(t, time.Minute, func() bool { return len(p.received()) == 1 })
}

// TestAnOwnerWhoIsNoneAnyMore: the addresses are read when a mail is sent.
func TestAnOwnerWhoIsNoneAnyMore(t *testing.T) {
	t.Parallel()
	p := openPost(t, config.MailStartTLS)
	b := newBench(t, t.TempDir(), ownersOf(p))
	away := accountLow("ann")
	away.Subject = "unreadable"
	b.finds("balance_low", accountLow("ann"), away)
	b.begin(t)
	b.untilTrue(t, time.Second, func() bool { return len(b.Standing().GivenUp) == 1 })
	s := b.Standing()
	require.Contains(t, s.GivenUp[0].Why, "no mail address any more")
	b.untilTrue(t, time.Second, func() bool { return b.Standing().Destinations[0].Error == "the account cannot be read" })
	require.Equal(t, 1, b.Standing().Destinations[0].Waiting, "it may be read later")
	require.Nil(t, s.Destinations[0].Failing)
	require.Empty(t, p.received())
}

// TestOwnersAreNotFlooded: however often an alert comes and goes, its owner gets a few mails of it in a day, and others
// theirs.
func TestOwnersAreNotFlooded(t *testing.T) {
	t.Parallel()
	w, now := newWatch(), begin
	mails := make(map[string]int)
	events := config.AccountEventNames()
	for i := range 24 * 60 { // each minute there, for a minute not
		now = now.Add(time.Minute)
		seen := make(map[string]Seen)
		for _, event := range events {
			seen[event] = Seen{Over: map[string]*ForOwner{"acct_ann": {Title: "over", Text: "over"}}}
			if i%2 == 0 {
				seen[event] = Seen{Findings: []Finding{accountLow("ann")}}
			}
		}
		if i == 1000 {
			seen["balance_low"] = Seen{Findings: []Finding{accountLow("ann"), accountLow("bob")}}
		}
		w.take(now, seen)
		w.flaps = make(map[alertKey]flap) // which bound it, too
		for _, n := range w.tellOwners(now, everybody) {
			require.Len(t, n.alerts, 1)
			mails[n.event.Name+" "+n.alerts[0].Subject]++
		}
	}
	for _, event := range events {
		require.Equal(t, ownerMailsADay, mails[event+" acct_ann"], event)
	}
	require.Equal(t, 1, mails["balance_low acct_bob"])
	w.take(now.Add(24*time.Hour), map[string]Seen{"balance_low": {}})
	w.take(now.Add(25*time.Hour), map[string]Seen{"balance_low": {Findings: []Finding{accountLow("ann")}}})
	require.Len(t, w.tellOwners(now.Add(25*time.Hour), everybody), 1, "the next day they are told again")
	require.Empty(t, newWatch().tellOwners(now, everybody))
}

// TestOwnersHearWhoeverElseDoes: that operators are told, or are not, is no matter of theirs; and an account that gets
// an address while it is so hears of it then.
func TestOwnersHearWhoeverElseDoes(t *testing.T) {
	t.Parallel()
	w, nobody := newWatch(), func(string) bool { return false }
	f := accountLow("ann")
	f.Owner = nil
	w.take(begin, map[string]Seen{"balance_low": {Findings: []Finding{f}}})
	require.Len(t, w.tell(begin, everybody), 1)
	require.Empty(t, w.tellOwners(begin, everybody))
	w.take(begin, map[string]Seen{"balance_low": {Findings: []Finding{accountLow("ann"), accountLow("bob")}}})
	require.Empty(t, w.tellOwners(begin, nobody))
	notes := w.tellOwners(begin, everybody)
	require.Len(t, notes, 2)
	require.Empty(t, w.tellOwners(begin, everybody))
	ours, err := notes[0].write("desk", begin)
	require.NoError(t, err)
	theirs, err := notes[0].writeForOwner("desk", begin)
	require.NoError(t, err)
	require.NotEqual(t, ours.ID, theirs.ID)
	require.NotContains(t, string(ours.Body), "Your account", "a webhook gets nothing that is the owner's")
	require.NotContains(t, string(ours.Body), "title")
	w.shared = true
	w.alerts[alertKey{"balance_low", "acct_bob"}].OwnerTold = nil
	require.Empty(t, w.tellOwners(begin, everybody), "who tells of it was not asked yet")
	w.claimed(alertKey{"balance_low", "acct_bob"}, false, begin)
	require.Empty(t, w.tellOwners(begin, everybody), "another node does")
	w.claimed(alertKey{"balance_low", "acct_bob"}, true, begin)
	require.Len(t, w.tellOwners(begin, everybody), 1)
}

// TestOwnersMessagesPushOutNoOthers.
func TestOwnersMessagesPushOutNoOthers(t *testing.T) {
	t.Parallel()
	o := newOutbox(t.TempDir())
	o.put(&Message{ID: "page"}, []string{"webhook ops"}, begin)
	for i := range maxMessages + 20 {
		lost := o.put(&Message{ID: fmt.Sprint(i), Account: "acct_1"}, []string{"owners ops"}, begin)
		require.Len(t, lost, max(0, min(1, i-maxMessages+1)))
	}
	require.Len(t, o.waiting("owners ops", 0), maxMessages)
	require.Equal(t, "page", o.waiting("webhook ops", 0)[0].ID)
}

// TestTestsForOwners go to the addresses of one account, and others to those of operators.
func TestTestsForOwners(t *testing.T) {
	t.Parallel()
	p := openPost(t, config.MailStartTLS)
	cfg := ownersOf(p)
	b := newBench(t, t.TempDir(), cfg)
	b.owners = map[string][]string{"acct_ann": {"ann@own.test"}}
	_, err := b.Test(t.Context(), TestOf{})
	require.ErrorIs(t, err, ErrUnknown)
	require.ErrorContains(t, err, "hook test --account")
	tested, err := b.Test(t.Context(), TestOf{Account: "acct_ann", AccountName: "ann"})
	require.NoError(t, err)
	require.Len(t, tested, 1)
	require.True(t, tested[0].Delivered, tested[0].Error)
	subjects, texts := p.mailsTo(t, "ann@own.test")
	require.Equal(t, []string{"A test for your account ann"}, subjects)
	require.Contains(t, texts[0], "mails about your account ann reach you")
	cfg.Mails[0].To = []string{"ops@example.test"}
	b.configure(cfg)
	tested, err = b.Test(t.Context(), TestOf{})
	require.NoError(t, err)
	require.Len(t, tested, 1)
	require.Equal(t, "mail ops", tested[0].Destination)
	cfg.Mails[0].Accounts = false
	b.configure(cfg)
	_, err = b.Test(t.Context(), TestOf{Account: "acct_ann", AccountName: "ann"})
	require.True(t, errors.Is(err, ErrUnknown) && strings.Contains(err.Error(), "accounts = true"), err)
}
