package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// keyCache remembers who a key belongs to, for one second: a burst of requests looks its key up once, and
// a change in the store made by anyone is seen within that second. Changes made through this engine are
// seen at once.
type keyCache struct {
	ttl time.Duration
	now func() time.Time

	mu      sync.Mutex
	epoch   uint64 // counts forget: an answer that was read before one is not kept after it
	entries map[[32]byte]cachedKey
}

type cachedKey struct {
	principal ledger.Principal
	until     time.Time
}

// maxCachedKeys bounds the cache; beyond it everything is forgotten and looked up again.
const maxCachedKeys = 10_000

func newKeyCache(ttl time.Duration, now func() time.Time) *keyCache {
	return &keyCache{ttl: ttl, now: now, entries: make(map[[32]byte]cachedKey)}
}

func (c *keyCache) get(hash [32]byte) (ledger.Principal, uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.entries[hash]
	if !ok || !c.now().Before(k.until) {
		return ledger.Principal{}, c.epoch, false
	}
	return k.principal, c.epoch, true
}

func (c *keyCache) put(hash [32]byte, p ledger.Principal, epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch != c.epoch {
		return
	}
	if len(c.entries) >= maxCachedKeys {
		clear(c.entries)
	}
	c.entries[hash] = cachedKey{principal: p, until: c.now().Add(c.ttl)}
}

func (c *keyCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	clear(c.entries)
}

// ErrKeyEnded: the key exists and opens its account no more; it is revoked, or its time is over. It is a
// ledger.ErrNotFound.
var ErrKeyEnded = fmt.Errorf("the key opens no account any more: %w", ledger.ErrNotFound)

// Lookup finds who a key belongs to, by the SHA-256 of its text. A key that is revoked or expired is ErrKeyEnded, with
// who it belonged to. It takes as long to find out as that there is none: neither is remembered.
func (r *requests) Lookup(ctx context.Context, hash [32]byte) (ledger.Principal, error) {
	p, epoch, ok := r.keys.get(hash)
	if !ok || !p.Key.Usable(r.keys.now()) {
		var err error
		if p, err = r.store.Lookup(ctx, hash); err != nil {
			return ledger.Principal{}, err
		}
	}
	if !p.Key.Usable(r.keys.now()) {
		return p, ErrKeyEnded
	}
	if !ok {
		r.keys.put(hash, p, epoch)
	}
	return p, nil
}

// ForgetKeys makes the next Lookup of every key ask the store: call it after any change to accounts or keys.
func (r *requests) ForgetKeys() {
	r.keys.forget()
	r.declines.forget() // an account that was activated begins anew
}
