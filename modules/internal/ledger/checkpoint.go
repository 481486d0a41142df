package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// CheckpointFormat is that of the checkpoints that are made now.
const CheckpointFormat = 3

// Checkpoint fixes the heads of all accounts' chains and of the audit trail at one moment. One that is kept elsewhere
// shows later that nothing before it was rewritten or removed (Books.Verify).
type Checkpoint struct {
	N       int64 `json:"n"`       // 1 for the first, without gaps
	Entries int64 `json:"entries"` // how many entries the journal had
	Acts    int64 `json:"acts"`    // how many acts the audit trail had
	// Trail is the sum of the heads of the accounts' acts that moved since the checkpoint before, and of those about no
	// account; in format 2 the Hash of the last act. Zero for none.
	Trail   Digest    `json:"trail"`
	Created time.Time `json:"time"`
	Prev    Digest    `json:"prev"` // Hash of the checkpoint before it, zero for the first
	Hash    Digest    `json:"hash"`
	// Format is that of Hash. 1 is without the audit trail; so is 0, of one that was kept before there were two.
	Format int64 `json:"format"`
}

// Heads makes a sum of the heads that moved since the one before it. Heads that did not move are
// in it through Prev.
type Heads struct{ text []byte }

// Add takes the head of an account whose chain has grown: accounts in the order of their ids.
func (h *Heads) Add(account string, seq int64, head [32]byte) {
	if h.text == nil {
		h.text = []byte("fareway ledger heads 1\n")
	}
	b := appendNumbers(appendTexts(h.text, account), seq)
	sum := sha256.Sum256(append(b, head[:]...)) // a chain of its own, so that a million heads need no memory
	h.text = append(h.text[:0], sum[:]...)
}

// Sum is zero when no head moved.
func (h *Heads) Sum() (sum Digest) {
	copy(sum[:], h.text)
	return sum
}

// Seal fills in the checkpoint's Hash, as its format asks for.
func (h *Heads) Seal(c Checkpoint) Checkpoint {
	b := []byte("fareway ledger checkpoint 1\n")
	if c.Format >= 2 {
		b = fmt.Appendf(b[:0], "fareway ledger checkpoint %d\n", c.Format)
	}
	b = append(b, c.Prev[:]...)
	b = appendNumbers(b, c.N, c.Entries, c.Created.UnixNano())
	if c.Format >= 2 {
		b = appendNumbers(b, c.Acts)
		b = append(b, c.Trail[:]...)
	}
	c.Hash = sha256.Sum256(append(b, h.text...))
	return c
}

// Digest is a SHA-256 that reads as hexadecimal.
type Digest [32]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(text []byte) error {
	var read Digest
	if len(text) != hex.EncodedLen(len(read)) {
		return fmt.Errorf("reading a digest: %d characters; it has %d, 0-9 and a-f", len(text), hex.EncodedLen(len(read)))
	}
	if _, err := hex.Decode(read[:], text); err != nil {
		return fmt.Errorf("reading a digest: %w", err)
	}
	*d = read
	return nil
}
