// Package affinity remembers which route a conversation is on, so that it stays there: prompt caches belong to a
// route, and what a model began with tools it should end. No state of replies is kept, and no text: a conversation is
// a keyed hash of its account, its profile and its beginning. Session headers are not read.
package affinity

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// Key stands for a conversation. Nobody who does not have the secret can tell whose it is or what is in it.
type Key [16]byte

// Conversation is what is remembered of one.
type Conversation struct {
	// Home is the route that was chosen for it.
	Home string `json:"home"`
	// Served are the routes that served it last, the latest first.
	Served [2]Served `json:"served"`
	// Work is what it has been about: numbers, and no word of it.
	Work routing.Work `json:"work"`
}

// Served is a turn on a route.
type Served struct {
	Route  string    `json:"route"`
	Tokens int64     `json:"tokens"` // of the prompt and the reply, which the upstream's cache may have
	At     time.Time `json:"at"`
}

// Memory keeps conversations. It may forget any of them at any time, and may be remote: then several nodes share it,
// and Options.Secret.
type Memory interface {
	// Recall returns a conversation; false when it is not known, or cannot be looked up in time.
	Recall(ctx context.Context, key Key) (Conversation, bool)
	// Remember keeps a conversation for as long as a lifetime.
	Remember(ctx context.Context, key Key, c Conversation, lifetime time.Duration)
}

// Shared is a Memory that several nodes have together.
type Shared interface {
	Memory
	// Secret is for Options.
	Secret() []byte
	Close() error
}

// Options are what a Book is made with.
type Options struct {
	Memory Memory           // nil: NewLocal, of MaxConversations
	Secret []byte           // of the hash; nil: made anew, for one process
	Now    func() time.Time // nil: time.Now
}

// Book says where a conversation is, and notes where it has been. Many may use it at once.
type Book struct {
	memory Memory
	secret []byte
	now    func() time.Time
	free   sync.Pool // of *hasher
}

// New makes a book.
func New(o Options) *Book {
	b := &Book{memory: o.Memory, secret: o.Secret, now: o.Now}
	if b.now == nil {
		b.now = time.Now
	}
	if b.memory == nil {
		b.memory = NewLocal(MaxConversations, b.now)
	}
	if b.secret == nil {
		b.secret = make([]byte, sha256.Size)
		_, _ = rand.Read(b.secret) // it never fails
	}
	b.free.New = func() any { return &hasher{mac: hmac.New(sha256.New, b.secret)} }
	return b
}

// Warm is for how long an upstream is expected to keep a prompt in its cache after its last use: most say five to ten
// minutes.
const Warm = 5 * time.Minute

// Past is what routing has to know of a conversation, nil when nothing is remembered.
func (b *Book) Past(ctx context.Context, key Key) *routing.Past {
	c, ok := b.memory.Recall(ctx, key)
	if !ok {
		return nil
	}
	past := &routing.Past{Home: c.Home, Work: c.Work}
	for i, s := range c.Served {
		past.Served[i].Route = s.Route
		if b.now().Sub(s.At) < Warm {
			past.Served[i].Warm = s.Tokens
		}
	}
	return past
}

// Turn is what is to be remembered of one.
type Turn struct {
	Home, Served string // routes
	Tokens       int64
	Work         routing.Work
}

// Note remembers that a conversation was served by a route, which is its home or not, and how many tokens the prompt
// and the reply had.
func (b *Book) Note(ctx context.Context, key Key, to Turn, lifetime time.Duration) {
	c, _ := b.memory.Recall(ctx, key)
	c.Home, c.Work = to.Home, to.Work
	served, tokens := to.Served, to.Tokens
	if c.Served[0].Route != served {
		c.Served[1] = c.Served[0]
	}
	c.Served[0] = Served{Route: served, Tokens: tokens, At: b.now()}
	b.memory.Remember(ctx, key, c, lifetime)
}

// Key is the key of a conversation: of what stays at its beginning, whose it is, and for which profile.
func (b *Book) Key(account, profile string, req *llm.Request) Key {
	h := b.hasher(account, profile)
	Beginning(req, h.text)
	return b.key(h)
}

// sameBeginning is how many bytes of the user's first text make two conversations one, see Keys.
const sameBeginning = 1 << 10

// LooseLifetime is for how long a loose key stands for a conversation.
const LooseLifetime = time.Hour

// Keys are the Key of a conversation and a loose one, which it keeps although more changes at its beginning than is
// known: of the first kilobyte of what its user said first. ok is false where there is no loose key, for the assistant
// has not said anything yet: what begins alike need not go on alike (GAP-134).
func (b *Book) Keys(account, profile string, req *llm.Request) (key, loose Key, ok bool) {
	if !slices.ContainsFunc(req.Messages, func(m llm.Message) bool { return m.Role == llm.RoleAssistant }) {
		return b.Key(account, profile, req), Key{}, false
	}
	whole, part := b.hasher(account, profile), b.hasher(account, profile)
	part.add("loose")
	left := sameBeginning
	Beginning(req, func(role llm.Role, text string, plain bool) {
		whole.text(role, text, plain)
		if role == llm.RoleUser {
			text = text[:min(left, len(text))]
			part.write(0, text)
			left -= len(text)
		}
	})
	return b.key(whole), b.key(part), left < sameBeginning
}

// hasher begins a key for an account and a profile.
func (b *Book) hasher(account, profile string) *hasher {
	h, _ := b.free.Get().(*hasher)
	h.mac.Reset()
	h.add(account)
	h.add(profile)
	return h
}

// key ends the key that a hasher has begun.
func (b *Book) key(h *hasher) Key {
	defer b.free.Put(h)
	h.mac.Sum(h.buffer[:0])
	return Key(h.buffer[:len(Key{})])
}

// hasher hashes texts one after the other, without a copy of any.
type hasher struct {
	mac    hash.Hash
	buffer [1024]byte
}

// add adds a text, told from the next one by its length.
func (h *hasher) add(s string) {
	binary.BigEndian.PutUint64(h.buffer[:8], uint64(len(s)))
	h.write(8, s)
}

// text adds a text of a conversation.
func (h *hasher) text(role llm.Role, text string, _ bool) {
	h.add(string(role))
	h.add(text)
}

// write hashes the first bytes of the buffer and then s.
func (h *hasher) write(n int, s string) {
	for {
		copied := copy(h.buffer[n:], s)
		_, _ = h.mac.Write(h.buffer[:n+copied]) // a hash takes everything
		if s = s[copied:]; s == "" {
			return
		}
		n = 0
	}
}
