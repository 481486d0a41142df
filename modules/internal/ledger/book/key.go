package book

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Taken is what another key has already: a name, of the same account, and a hash.
type Taken struct{ Name, Hash bool }

// CreateKey makes a key, the first of a line: of it are given its ids, name, last characters, expiry, cap and hash.
func CreateKey(a Account, k FreshKey, taken Taken, by By) (Change, error) {
	k.Created = by.Now
	if err := checkName("a key's name", k.Name, taken.Name); err != nil {
		return Change{}, err
	}
	if err := checkKey(k.Key, taken.Hash); err != nil {
		return Change{}, err
	}
	return a.record(Change{Fresh: k}, "key.create", k.ID, nil, k.fields(), by)
}

// checkKey checks all of a key but its name; taken is whether another one has its hash.
func checkKey(k ledger.Key, taken bool) error {
	switch {
	case len(k.Last4) > 4:
		return fmt.Errorf("%w: more than four characters of a key", ledger.ErrInvalid)
	case k.SpendCap < 0:
		return fmt.Errorf("%w: a spend cap of %d microcents", ledger.ErrInvalid, k.SpendCap)
	case !k.Expires.IsZero() && (k.Expires.Before(time.Unix(0, 0)) || !k.Expires.Before(ledger.MaxExpiry)):
		return fmt.Errorf("%w: a key that expires %s", ledger.ErrInvalid, SayExpiry(k))
	case taken:
		return ledger.ErrExists
	}
	return nil
}

// ApplyChange is a key with what is to change of it.
func ApplyChange(k ledger.Key, change ledger.KeyChange) ledger.Key {
	if change.Name != nil {
		k.Name = *change.Name
	}
	if change.Expires != nil {
		k.Expires = *change.Expires
	}
	if change.SpendCap != nil {
		k.SpendCap = *change.SpendCap
	}
	return k
}

// ChangeKey changes a key; taken is whether another key of the account has its new name.
func ChangeKey(a Account, was ledger.Key, change ledger.KeyChange, taken bool, by By) (Change, error) {
	k := ApplyChange(was, change)
	before, after := keyChanges(was, k)
	if len(after) == 0 {
		return Change{Key: k, Account: a}, nil
	}
	if k.Name != was.Name {
		if err := checkName("a key's name", k.Name, taken); err != nil {
			return Change{}, err
		}
	}
	if err := checkKey(k, false); err != nil {
		return Change{}, err
	}
	return a.record(Change{Key: k}, "key.change", k.ID, before, after, by)
}

// RevokeKey ends a key, once.
func RevokeKey(a Account, k ledger.Key, by By) (Change, error) {
	if k.Revoked {
		return Change{Key: k, Account: a}, nil
	}
	k.Revoked = true
	return a.record(Change{Key: k}, "key.revoke", k.ID, Fields{"revoked": false}, Fields{"revoked": true}, by)
}

// RotateKey makes a key, of which are given its id, last characters and hash (taken: another one has that), that
// takes the name and the line of another, which goes on for the overlap under a RetiredName.
func RotateKey(a Account, old ledger.Key, k FreshKey, overlap time.Duration, retired string, taken bool, by By) (
	Change, error,
) {
	switch {
	case overlap < 0:
		return Change{}, fmt.Errorf("%w: an overlap of %s", ledger.ErrInvalid, overlap)
	case !old.Usable(by.Now):
		return Change{}, fmt.Errorf("%w: the key has ended; create another", ledger.ErrInvalid)
	}
	was, fresh := old, FreshKey{old, k.Hash}
	old.Name = retired
	if end := by.Now.Add(overlap); old.Expires.IsZero() || end.Before(old.Expires) {
		old.Expires = end
	}
	fresh.ID, fresh.Last4, fresh.Created = k.ID, k.Last4, by.Now
	if err := cmp.Or(checkKey(old, false), checkKey(fresh.Key, taken)); err != nil {
		return Change{}, err
	}
	before, after := keyChanges(was, old)
	after["replaced_by"] = fresh.ID
	c, err := a.record(Change{Key: old, Fresh: fresh}, "key.rotate", old.ID, before, after, by)
	if err != nil {
		return Change{}, err
	}
	return c.Account.record(c, "key.create", fresh.ID, nil, fresh.fields(), by)
}

// RetiredName is the first free one of name~1, name~2, ...; taken tells whether a key of the account has a name.
func RetiredName(name string, taken func(name string) (bool, error)) (string, error) {
	for i := 1; ; i++ {
		retired := name + "~" + strconv.Itoa(i)
		if taken, err := taken(retired); err != nil || !taken {
			return retired, err
		}
	}
}

// keyFields are a key for the audit trail.
func keyFields(k ledger.Key) Fields {
	return Fields{"name": k.Name, "last4": k.Last4, "expires": SayExpiry(k), "spend_cap_microcents": k.SpendCap}
}

// fields are a new key for the audit trail. The beginning of its hash shows later whether another key was put in its
// place, and tells nothing of the key.
func (k FreshKey) fields() Fields {
	f := keyFields(k.Key)
	f["fingerprint"] = hex.EncodeToString(k.Hash[:8])
	f["created"] = k.Created.Format(time.RFC3339Nano)
	return f
}

// keyChanges are what differs between two states of a key.
func keyChanges(was, is ledger.Key) (before, after Fields) {
	before, after = keyFields(was), keyFields(is)
	for name, value := range before {
		if after[name] == value {
			delete(before, name)
			delete(after, name)
		}
	}
	return before, after
}

// SayExpiry is when a key expires as the audit trail says it.
func SayExpiry(k ledger.Key) string {
	if k.Expires.IsZero() {
		return "never"
	}
	return k.Expires.UTC().Format(time.RFC3339Nano)
}
