package engine

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"sync"
)

// Traffic is how many requests came as far as the routes, how many of them failed, and how many attempts did, for a
// reason that a configuration can have. Nobody without a key is counted, nor a 4xx.
type Traffic struct {
	Answered       int64 `json:"answered"`
	Failed         int64 `json:"failed"` // with 5xx
	FailedAttempts int64 `json:"failed_attempts"`
}

// Failures is the larger of the two: a request often counts in both.
func (t Traffic) Failures() int64 { return max(t.Failed, t.FailedAttempts) }

// Plus is both together; Minus what is new since before.
func (t Traffic) Plus(o Traffic) Traffic {
	return Traffic{t.Answered + o.Answered, t.Failed + o.Failed, t.FailedAttempts + o.FailedAttempts}
}

// Minus is Plus undone.
func (t Traffic) Minus(o Traffic) Traffic {
	return Traffic{t.Answered - o.Answered, t.Failed - o.Failed, t.FailedAttempts - o.FailedAttempts}
}

// maxTroubled is of how many accounts, those with the most failures, Traffic is told apart.
const maxTroubled = 200

// traffic counts Traffic since the start, in all and by account.
type traffic struct {
	mu       sync.Mutex
	all      Traffic
	accounts map[string]Traffic // from their first failure on
}

func (t *traffic) add(account string, n Traffic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.accounts == nil {
		t.accounts = make(map[string]Traffic)
	}
	t.all = t.all.Plus(n)
	if had, ok := t.accounts[account]; ok || n.Failures() > 0 {
		t.accounts[account] = had.Plus(n)
	}
}

// troubled are the accounts with failures.
func (t *traffic) troubled() (all Traffic, accounts map[string]Traffic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	accounts = maps.Clone(t.accounts)
	if len(accounts) > maxTroubled {
		ids := slices.SortedFunc(maps.Keys(accounts), func(a, b string) int {
			return cmp.Compare(accounts[b].Failures(), accounts[a].Failures())
		})
		for _, id := range ids[maxTroubled:] {
			delete(accounts, id)
		}
	}
	return t.all, accounts
}

// Attended counts a request of an account that came as far as the routes. It failed where its status is 5xx, unless
// own says that it was the request that no route could take.
func (m *Metrics) Attended(account string, status int, own bool) {
	n := Traffic{Answered: 1}
	if status >= http.StatusInternalServerError && !own {
		n.Failed = 1
	}
	m.traffic.add(account, n)
}

// FailedAttempt counts an attempt for an account that failed for a reason that a configuration can have.
func (m *Metrics) FailedAttempt(account string) { m.traffic.add(account, Traffic{FailedAttempts: 1}) }

// Traffic is what was counted since the start, and of accounts with failures, by their ids, since their first.
func (m *Metrics) Traffic() (all Traffic, accounts map[string]Traffic) { return m.traffic.troubled() }
