package book

import (
	"iter"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Chains give the ends of chains, as checkpoints hash them.
type Chains interface {
	// Heads are the last entries of the accounts that have some behind a place up to another, in the order of their ids.
	Heads(after, last int64) iter.Seq2[Head, error]
	// TrailHeads are the last acts in the same way, those of no account under "".
	TrailHeads(after, last int64) iter.Seq2[Head, error]
}

// Head is the end of a chain.
type Head struct {
	Account string // id
	Seq     int64
	Hash    ledger.Digest
}

// SealCheckpoint hashes the heads of the chains that grew after the checkpoint last.
func SealCheckpoint(c, last ledger.Checkpoint, chains Chains) (ledger.Checkpoint, error) {
	sum := func(of iter.Seq2[Head, error]) (heads ledger.Heads, head Head, err error) {
		for head, err = range of {
			if err != nil {
				return heads, head, err
			}
			heads.Add(head.Account, head.Seq, head.Hash)
		}
		return heads, head, nil
	}
	after := last.Acts
	if c.Format < 3 { // the last act of all
		after = c.Acts - 1
	}
	acts, act, err := sum(chains.TrailHeads(after, c.Acts))
	if c.Trail = acts.Sum(); c.Format < 3 {
		c.Trail = act.Hash
	}
	if err != nil {
		return c, err
	}
	heads, _, err := sum(chains.Heads(last.Entries, c.Entries))
	return heads.Seal(c), err
}
