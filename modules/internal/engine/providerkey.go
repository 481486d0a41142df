package engine

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/plugins/llm"
)

// KeyState is whether a provider's key serves.
type KeyState string

const (
	KeyServes    KeyState = "serves"
	KeyLimited   KeyState = "rate_limited" // for at least one upstream model
	KeyExhausted KeyState = "out_of_quota"
	KeyRefused   KeyState = "refused" // the upstream did not take it
)

// How long a key is passed over. A rate limit is over when the upstream says so. A quota or a key that is refused is
// somebody's to mend, so it is tried by one request after a while, and then after twice as long each time.
const (
	limitedUnstated = 5 * time.Second // where the upstream does not say
	limitedLeast    = time.Second
	limitedMost     = 15 * time.Minute
	quotaPause      = 5 * time.Minute
	refusedPause    = time.Minute
	longestKeyPause = time.Hour
	// keyTrial is how long nobody else tries a key that one request is trying.
	keyTrial = time.Minute
	// maxLimitedModels bounds the models that a key keeps a limit of.
	maxLimitedModels = 1024
)

// providerKey is what is known of one of a provider's keys, or of the credential of a provider without keys, whose
// name is "". It outlives configurations that do not change the key.
type providerKey struct {
	provider, name string
	now            func() time.Time
	log            *slog.Logger
	metrics        *Metrics

	// well: nothing is the matter, which is read without a lock.
	well atomic.Bool
	// taken: the upstream has taken a request with it, since this process knows it.
	taken atomic.Bool

	mu      sync.Mutex
	out     KeyState // KeyExhausted or KeyRefused, of the key as a whole; "" when it is neither
	until   time.Time
	trying  bool // one request is
	pause   time.Duration
	limited map[string]keyLimit // by upstream model
	probing bool
	cleared time.Time // until when words that name the key are not believed: it was tried, and served

	spawn func(func())
}

// keyLimit is a rate limit of an upstream.
type keyLimit struct {
	until  time.Time
	stated bool // by the upstream
}

// take reports whether the key serves a model now; if not, why and until when. One that has been passed over for long
// enough is taken by one request, to be tried.
func (k *providerKey) take(model string) (why KeyState, until time.Time, ok bool) {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.out != "" {
		if now.Before(k.until) {
			return k.out, k.until, false
		}
		k.until, k.trying = now.Add(keyTrial), true
		return "", time.Time{}, true
	}
	if until := k.limited[model].until; now.Before(until) {
		return KeyLimited, until, false
	}
	delete(k.limited, model)
	k.settle()
	return "", time.Time{}, true
}

// look is take without taking. stated tells whether the upstream itself named the time.
func (k *providerKey) look(model string, now time.Time) (why KeyState, until time.Time, stated bool) {
	if k.well.Load() {
		return "", time.Time{}, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.out != "" {
		if now.Before(k.until) {
			return k.out, k.until, false
		}
		return "", time.Time{}, false
	}
	if l := k.limited[model]; now.Before(l.until) {
		return KeyLimited, l.until, l.stated
	}
	return "", time.Time{}, false
}

// settle notes whether anything is the matter. It is called with the lock held.
func (k *providerKey) settle() { k.well.Store(k.out == "" && len(k.limited) == 0) }

// noted is failed and served for a provider without keys, whose attempts are not made through a pool: err is how one
// ended, nil where the upstream took it.
func (k *providerKey) noted(model string, err error, by Backend) {
	if err == nil {
		k.served(model)
		return
	}
	failed := asFailure(err)
	k.mu.Lock()
	k.trying = k.trying || k.out != "" && !k.now().Before(k.until) // who is called in spite of it tries it
	k.mu.Unlock()
	k.failed(model, failed, by)
}

// served notes that the upstream took a request with the key.
func (k *providerKey) served(model string) {
	if k.name != "" {
		k.metrics.keyAttempt(k.provider, k.name, "served")
	}
	if !k.taken.Load() {
		k.taken.Store(true)
	}
	if k.well.Load() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.settle()
	delete(k.limited, model)
	if k.out != "" {
		k.log.Info("the key serves again", "provider", k.provider, "key", k.name)
		k.out, k.pause, k.trying = "", 0, false
	}
}

// failed notes how an attempt with the key failed, and reports whether another key may do better. by is the provider
// with this key, nil where it cannot be asked.
func (k *providerKey) failed(model string, err *llm.Error, by Backend) bool {
	if k.name != "" {
		k.metrics.keyAttempt(k.provider, k.name, string(err.Kind))
	}
	switch err.Kind {
	case llm.ErrCapacity:
		k.limit(model, err.RetryAfter)
	case llm.ErrQuota, llm.ErrCredentials:
		switch {
		case !sure(err):
			k.suspect(model, err, by)
		case err.Kind == llm.ErrQuota || ofWholeKey(err):
			k.benched(err)
		}
	case llm.ErrAllowance: // another key may have more left; this one serves smaller requests
	default:
		return false
	}
	return true
}

func (k *providerKey) limit(model string, wait time.Duration) {
	stated := wait > 0
	if !stated {
		wait = limitedUnstated
	}
	wait = min(max(wait, limitedLeast), limitedMost)
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.settle()
	if k.limited == nil || len(k.limited) >= maxLimitedModels {
		k.limited = make(map[string]keyLimit)
	}
	now := k.now()
	until, was := now.Add(wait), k.limited[model]
	if !now.Before(was.until) {
		k.log.Warn("the upstream takes no more for a while", "provider", k.provider, "key", k.name, "model", model,
			"until", until, "retry_after", stated)
	}
	if until.After(was.until) || stated && !was.stated {
		k.limited[model] = keyLimit{until, stated}
	}
}

func (k *providerKey) passOver(why KeyState, first time.Duration, err *llm.Error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.settle()
	now := k.now()
	// Requests that began together fail together, and count once.
	if k.out == why && now.Before(k.until) && !k.trying {
		return
	}
	if k.out != why {
		k.pause = first
	} else {
		k.pause = min(2*k.pause, longestKeyPause)
	}
	k.out, k.trying = why, false
	k.until = now.Add(max(k.pause, min(err.RetryAfter, longestKeyPause)))
	text := "a key is passed over"
	if k.name == "" {
		text = "a credential does not serve: its provider's routes are called where nothing else is left"
	}
	k.log.Error(text, "provider", k.provider, "key", k.name, "state", why, "until", k.until, "error", err)
}

// KeyHealth is how a provider's key does.
type KeyHealth struct {
	Name  string
	State KeyState
	// Until is when it is tried again, zero for one that serves. Of one that is limited for several models, the last.
	Until time.Time
}

// subject is what alerts call it: of a provider without keys the provider.
func (k *providerKey) subject() string {
	if k.name == "" {
		return k.provider
	}
	return k.provider + "/" + k.name
}

func (k *providerKey) health() KeyHealth {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	h := KeyHealth{Name: k.name, State: KeyServes}
	if k.out != "" {
		h.State, h.Until = k.out, k.until
		return h
	}
	for _, l := range k.limited {
		if now.Before(l.until) && l.until.After(h.Until) {
			h.State, h.Until = KeyLimited, l.until
		}
	}
	return h
}

// providerKeys are the keys of all configurations that are in use, by provider, name and identity.
type providerKeys struct {
	mu    sync.Mutex
	known map[[3]string]*providerKey
}

// of finds a key that is known, or makes it.
func (p *providerKeys) of(provider, name, identity string, fresh func() *providerKey) *providerKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := [3]string{provider, name, identity}
	k := p.known[id]
	if k == nil {
		if p.known == nil {
			p.known = make(map[[3]string]*providerKey)
		}
		k = fresh()
		p.known[id] = k
	}
	return k
}

// keep forgets keys that a configuration does not have.
func (p *providerKeys) keep(wanted func(*providerKey) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, k := range p.known {
		if !wanted(k) {
			delete(p.known, id)
		}
	}
}
