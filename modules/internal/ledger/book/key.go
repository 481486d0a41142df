package book

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// KeyChanged is a key that an operator made or changed. Where nothing is to change, both are as they were, and Act is
// none. The key's cap is its line's.
type KeyChanged struct {
	Key     ledger.Key
	Account Account
	Act     Act
}

// Taken is what another key has already: a name, of the same account, and a hash.
type Taken struct{ Name, Hash bool }

// CreateKey makes a key, the first of a line: of k are given its ids, name, last characters, expiry and cap.
func CreateKey(a Account, k ledger.Key, hash [32]byte, taken Taken, by By) (KeyChanged, error) {
	k.Created = by.Now
	if err := checkKeyName(k.Name, taken.Name); err != nil {
		return KeyChanged{}, err
	}
	if err := checkFreshKey(k, taken); err != nil {
		return KeyChanged{}, err
	}
	return a.changedKey("key.create", k, nil, madeFields(k, hash), by)
}

func (a Account) changedKey(action string, k ledger.Key, before, after Fields, by By) (c KeyChanged, err error) {
	if c.Act, err = a.record(action, k.ID, before, after, by); err != nil {
		return KeyChanged{}, err
	}
	c.Key, c.Account = k, a
	return c, nil
}

func checkKeyName(name string, taken bool) error {
	if err := checkName("a key's name", name); err != nil {
		return err
	}
	if taken {
		return ledger.ErrExists
	}
	return nil
}

func checkFreshKey(k ledger.Key, taken Taken) error {
	if len(k.Last4) > 4 {
		return fmt.Errorf("%w: more than four characters of a key", ledger.ErrInvalid)
	}
	if err := checkKey(k); err != nil {
		return err
	}
	if taken.Hash {
		return ledger.ErrExists
	}
	return nil
}

func checkKey(k ledger.Key) error {
	switch {
	case k.SpendCap < 0:
		return fmt.Errorf("%w: a spend cap of %d microcents", ledger.ErrInvalid, k.SpendCap)
	case !k.Expires.IsZero() && (k.Expires.Before(time.Unix(0, 0)) || !k.Expires.Before(ledger.MaxExpiry)):
		return fmt.Errorf("%w: a key that expires %s", ledger.ErrInvalid, SayExpiry(k))
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
func ChangeKey(a Account, was ledger.Key, change ledger.KeyChange, taken bool, by By) (KeyChanged, error) {
	k := ApplyChange(was, change)
	before, after := keyChanges(was, k)
	if len(after) == 0 {
		return KeyChanged{Key: k, Account: a}, nil
	}
	if k.Name != was.Name {
		if err := checkKeyName(k.Name, taken); err != nil {
			return KeyChanged{}, err
		}
	}
	if err := checkKey(k); err != nil {
		return KeyChanged{}, err
	}
	return a.changedKey("key.change", k, before, after, by)
}

// RevokeKey ends a key, once.
func RevokeKey(a Account, k ledger.Key, by By) (KeyChanged, error) {
	if k.Revoked {
		return KeyChanged{Key: k, Account: a}, nil
	}
	k.Revoked = true
	return a.changedKey("key.revoke", k, Fields{"revoked": false}, Fields{"revoked": true}, by)
}

// Rotated is a key that another one takes the place of, on the same line.
type Rotated struct {
	Old, Fresh ledger.Key
	Account    Account
	Acts       [2]Act
}

// RotateKey makes a key, with an id and a hash, that takes the name of another, which goes on for the overlap under a
// RetiredName.
func RotateKey(a Account, was ledger.Key, id string, hash [32]byte, last4 string, overlap time.Duration,
	retired string, taken Taken, by By) (c Rotated, err error) {
	switch {
	case overlap < 0:
		return c, fmt.Errorf("%w: an overlap of %s", ledger.ErrInvalid, overlap)
	case !was.Usable(by.Now):
		return c, fmt.Errorf("%w: the key has ended; create another", ledger.ErrInvalid)
	}
	old, fresh := was, was
	old.Name = retired
	if end := by.Now.Add(overlap); old.Expires.IsZero() || end.Before(old.Expires) {
		old.Expires = end
	}
	fresh.ID, fresh.Last4, fresh.Created = id, last4, by.Now
	if err := checkKey(old); err != nil {
		return c, err
	}
	if err := checkFreshKey(fresh, taken); err != nil {
		return c, err
	}
	before, after := keyChanges(was, old)
	after["replaced_by"] = id
	rotated, err := a.changedKey("key.rotate", old, before, after, by)
	if err != nil {
		return c, err
	}
	made, err := rotated.Account.changedKey("key.create", fresh, nil, madeFields(fresh, hash), by)
	return Rotated{old, fresh, made.Account, [2]Act{rotated.Act, made.Act}}, err
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

// madeFields are a new key for the audit trail. The beginning of its hash shows later whether another key was put in
// its place, and tells nothing of the key.
func madeFields(k ledger.Key, hash [32]byte) Fields {
	f := keyFields(k)
	f["fingerprint"] = hex.EncodeToString(hash[:8])
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
