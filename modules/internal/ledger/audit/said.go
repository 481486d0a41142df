package audit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// trail is what the acts about an account, or about none, say.
type trail struct {
	of       string // the account's id
	is       book.Trail
	subjects map[string]*said
	order    []*said
	rotated  map[string]rotation // by the key that was made
}

// said is what acts said last of the fields of an account or a key: values as JSON, with the act that said it.
type said struct {
	subject string
	values  map[string]value
	about   bool // an act is about it as an account
	made    bool
}

type value struct {
	json string
	act  int64
}

// rotation is that a key took another one's place.
type rotation struct {
	old string // its id
	act int64
}

func trailOf(account string) *trail {
	return &trail{of: account, subjects: map[string]*said{}, rotated: map[string]rotation{}}
}

// add takes the next act, which has to continue the one before it.
func (t *trail) add(a *Act) error {
	switch where := a.where(); {
	case a.Seq != t.is.Acts+1:
		return Disagree(where, "act %d of its account is missing before it, which is act %d", t.is.Acts+1, a.Seq)
	case a.Format > 1 && a.Prev != t.is.Head:
		return Disagree(where, "its link to the act before it is broken")
	}
	t.is = book.Trail{Acts: a.Seq, Head: a.Hash}
	account, key := strings.HasPrefix(a.Action, "account."), strings.HasPrefix(a.Action, "key.")
	if a.Number == 0 || !account && !key {
		return nil
	}
	s := t.subjects[a.Subject]
	if s == nil {
		s = &said{subject: a.Subject, values: map[string]value{}}
		t.subjects[a.Subject], t.order = s, append(t.order, s)
	}
	s.about = s.about || account
	s.made = s.made || a.Action == "account.create" || a.Action == "key.create"
	var fields map[string]json.RawMessage
	_ = json.Unmarshal([]byte(a.After), &fields) // it is what its hash was made of, or verifyTrail says so
	for name, text := range fields {
		s.values[name] = value{plain(text), a.Place}
	}
	if fresh, ok := fields["replaced_by"]; ok && a.Action == "key.rotate" {
		var id string
		_ = json.Unmarshal(fresh, &id)
		t.rotated[id] = rotation{a.Subject, a.Place}
	}
	return nil
}

// plain writes a value in one way: text as quoted does, and what is true or false as 1 or 0.
func plain(text json.RawMessage) string {
	var s string
	switch {
	case json.Unmarshal(text, &s) == nil && text[0] == '"':
		return quoted(s)
	case string(text) == "true":
		return "1"
	case string(text) == "false":
		return "0"
	}
	return string(text)
}

func quoted(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string always can be
	return strings.TrimSuffix(b.String(), "\n")
}

// compare compares the trail with what its account counts.
func (t *trail) compare(counts book.Trail) error {
	if t.is == counts {
		return nil
	}
	return Disagree(t.of, "it counts %d acts about it and the audit trail has %d, or the last of them is another",
		counts.Acts, t.is.Acts)
}

func unmade(id string) error {
	return Disagree(id, "the audit trail does not say that it was made")
}

// verifyMade checks that the trail says of an account and its keys that they were made. Those of a ledger that had no
// trail yet have the smallest numbers.
func (p *accountPass) verifyMade(a *holder) error {
	made := func(id string) bool { s := a.trail.subjects[id]; return s != nil && s.made }
	switch {
	case made(a.ID):
		if p.madeAccount == 0 {
			p.madeAccount = a.Number
		}
	case a.Number < 1 || p.madeAccount > 0:
		return unmade(a.ID)
	}
	for i := range a.keys {
		switch k := &a.keys[i]; {
		case made(k.ID):
			if p.madeKey == 0 || k.Number < p.madeKey {
				p.madeKey = k.Number
			}
		case k.Number < 1:
			return unmade(k.ID)
		case k.Number > p.unmade.Number:
			p.unmade = *k
		}
	}
	return nil
}

// verifyLines compares which keys are a line, and so share a cap, with the rotations that the trail has: a key that
// replaced another is of the other's line, and every other key begins its own.
func (a *holder) verifyLines() error {
	for i := range a.keys {
		k := &a.keys[i]
		r, rotated := a.trail.rotated[k.ID]
		old := a.byID[r.old]
		switch {
		case !rotated && k.Root != k.Number:
			return Disagree(k.ID, "it shares the cap of another key, and the audit trail does not say that it replaced one")
		case rotated && (old == nil || k.Root != old.Root):
			return Disagree(k.ID, "it does not share the cap of %s, which it replaced by act %d of the audit trail", r.old,
				r.act)
		}
	}
	return nil
}

// field is something of an account or a key as JSON, and what it is where the trail says nothing; "" for what has to
// be said.
type field struct{ name, is, unset string }

// verifySaid compares what an account and its keys are with what the audit trail said last of them. Those of a ledger
// that had no trail yet are compared in what was changed since.
func (a *holder) verifySaid() error {
	for _, s := range a.trail.order {
		if len(s.values) == 0 {
			continue
		}
		k := a.byID[s.subject]
		var err error
		switch {
		case s.subject == a.ID:
			err = s.compare(a.fields())
		case k != nil:
			err = s.compareKey(k)
		default:
			err = Disagree(s.subject, "it is missing, act %d of the audit trail says that it was made", s.values["name"].act)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *said) compare(fields []field) error {
	if says, ok := s.values["created"]; ok && says.json != fields[0].is {
		return Disagree(s.subject, "it was made at %s, act %d of the audit trail says %s", fields[0].is, says.act, says.json)
	}
	for _, f := range fields[1:] {
		says := s.values[f.name].json
		if says == "" {
			says = f.unset
		}
		if says != "" && says != f.is {
			return Disagree(s.subject, "its %s is %s, the audit trail says %s", f.name, f.is, says)
		}
	}
	return nil
}

// fields are what the trail says of an account.
func (a *holder) fields() []field {
	fields := []field{
		{"created", quoted(nano(a.Created)), ""}, {"name", quoted(a.Name), ""}, {"plan", quoted(a.Plan), ""},
		{"state", quoted(string(a.State)), ""}, {"profile", quoted(a.Profile), `""`},
		{"requires_region", quoted(a.Required.Regions), `""`},
		{"requires_retention", quoted(a.Required.Retention), `""`},
		{"mail", quoted(book.MaskedMail(a.Mail)), `""`},
	}
	for i, limit := range ledger.AllLimits {
		is := "null"
		if n := a.Limits[i]; n != nil {
			is = strconv.FormatInt(*n, 10)
		}
		fields = append(fields, field{string(limit), is, "null"})
	}
	return fields
}

// compareKey compares a key. The caps of lines with several keys verifyCaps compares.
func (s *said) compareKey(k *Key) error {
	revoked, unset := "0", ""
	if k.Revoked {
		revoked = "1"
	}
	if _, made := s.values["fingerprint"]; made {
		unset = "0"
	}
	err := s.compare([]field{
		{"created", quoted(nano(k.Created)), ""}, {"name", quoted(k.Name), ""}, {"last4", quoted(k.Last4), ""},
		{"revoked", revoked, unset}, {"fingerprint", quoted(hex.EncodeToString(k.Hash[:8])), ""},
	})
	if err != nil {
		return err
	}
	says, ok := s.values["expires"]
	if is := quoted(book.SayExpiry(k.Key)); ok && says.json != is {
		return Disagree(s.subject, "it expires %s, act %d of the audit trail says %s", is, says.act, says.json)
	}
	says, ok = s.values["spend_cap_microcents"]
	if is := fmt.Sprint(k.Cap); ok && !s.shares(k) && says.json != is {
		return Disagree(s.subject, "it has a cap of %s microcents, act %d of the audit trail says %s", is, says.act,
			says.json)
	}
	return nil
}

// shares reports whether a key's line has several keys: a cap that was changed through one of them is all of theirs.
func (s *said) shares(k *Key) bool {
	_, rotated := s.values["replaced_by"]
	return rotated || k.Root != k.Number
}

// verifyUnsaid looks for settings of an account about which the audit trail says nothing at all.
func (a *holder) verifyUnsaid() error {
	s := a.trail.subjects[a.ID]
	if (s == nil || !s.about) &&
		(a.Profile != "" || a.Required != (book.Required{}) || a.Limits != (ledger.Limits{}) || len(a.Mail) > 0) {
		return Disagree(a.ID, "it has a limit, a profile, a requirement or an address of its own, and the audit trail does "+
			"not say who set it")
	}
	return nil
}

// verifyCaps compares the caps of lines with several keys with what was said last of one of those.
func (a *holder) verifyCaps() error {
	caps := map[int64]value{}
	for _, s := range a.trail.order {
		k := a.byID[s.subject]
		if says, ok := s.values["spend_cap_microcents"]; ok && k != nil && s.shares(k) && says.act > caps[k.Root].act {
			caps[k.Root] = says
		}
	}
	for i := range a.keys {
		k := &a.keys[i]
		if says, ok := caps[k.Number]; ok && says.json != fmt.Sprint(k.Cap) {
			return Disagree(k.ID, "the key has a cap of %d microcents, act %d of the audit trail says %s", k.Cap, says.act,
				says.json)
		}
	}
	return nil
}
