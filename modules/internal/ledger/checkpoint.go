package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"
)

// CheckpointFormat is that of the checkpoints that are made now.
const CheckpointFormat = 2

// Checkpoint fixes the heads of all accounts' chains and of the audit trail at one moment. One that is kept elsewhere
// shows later that nothing before it was rewritten or removed (Books.Verify).
type Checkpoint struct {
	N       int64     `json:"n"`       // 1 for the first, without gaps
	Entries int64     `json:"entries"` // how many entries the journal had
	Acts    int64     `json:"acts"`    // how many acts the audit trail had
	Trail   Digest    `json:"trail"`   // Hash of the last of them, zero for none
	Created time.Time `json:"time"`
	Prev    Digest    `json:"prev"` // Hash of the checkpoint before it, zero for the first
	Hash    Digest    `json:"hash"`
	// Format is that of Hash. 1 is without the audit trail; so is 0, of one that was kept before there were two.
	Format int64 `json:"format"`
}

// Heads makes a checkpoint's hash from the heads that moved since the one before it. Heads that did not move are
// in it through Prev.
type Heads struct{ text []byte }

// Add takes the head of an account whose chain has grown: accounts in the order of their ids.
func (h *Heads) Add(account string, seq int64, head [32]byte) {
	if h.text == nil {
		h.text = []byte("fareway ledger heads 1\n")
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(len(account)))
	b = append(b, account...)
	b = binary.BigEndian.AppendUint64(b, uint64(seq))
	b = append(b, head[:]...)
	sum := sha256.Sum256(append(h.text, b...)) // a chain of its own, so that a million heads need no memory
	h.text = append(h.text[:0], sum[:]...)
}

// Seal fills in the checkpoint's Hash, as its format asks for.
func (h *Heads) Seal(c Checkpoint) Checkpoint {
	covers := c.Format >= 2
	b := []byte("fareway ledger checkpoint 1\n")
	if covers {
		b = []byte("fareway ledger checkpoint 2\n")
	}
	b = append(b, c.Prev[:]...)
	for _, n := range [...]int64{c.N, c.Entries, c.Created.UnixNano()} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	if covers {
		b = binary.BigEndian.AppendUint64(b, uint64(c.Acts))
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
