package affinity_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/plugins/llm"
)

// clock is a time that a test turns.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newClock() *clock { return &clock{time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)} }

// talk is a conversation of texts: the system's, and then the user's and the assistant's in turns.
func talk(texts ...string) *llm.Request {
	req := &llm.Request{}
	for i, text := range texts {
		role := llm.RoleSystem
		if i > 0 {
			role = [...]llm.Role{llm.RoleAssistant, llm.RoleUser}[i%2]
		}
		req.Messages = append(req.Messages, llm.Message{Role: role, Parts: []llm.Part{llm.Text(text)}})
	}
	return req
}

// TestKey: a conversation keeps its key from turn to turn, and no other one has it.
func TestKey(t *testing.T) {
	t.Parallel()
	book := affinity.New(affinity.Options{})
	long := strings.Repeat("long ", 1000)
	key := func(account, profile string, texts ...string) affinity.Key {
		return book.Key(account, profile, talk(texts...))
	}
	first := key("a", "max", long, "hello")
	require.Equal(t, first, key("a", "max", long, "hello", "hi", "and now?"), "its beginning")
	seen := map[affinity.Key]int{first: -1}
	for i, other := range []affinity.Key{
		key("b", "max", long, "hello"), key("a", "budget", long, "hello"), key("a", "max", long, "hello!"),
		key("a", "max", long+".", "hello"), key("a", "max", long), key("am", "ax", long, "hello"),
		key("a", "max", long+"hello", ""), key("a", "max"),
	} {
		require.NotContains(t, seen, other, i)
		seen[other] = i
	}
	require.NotEqual(t, first, affinity.New(affinity.Options{}).Key("a", "max", talk(long, "hello")), "it is keyed")
	shared := affinity.Options{Secret: []byte("of several nodes")}
	require.Equal(t, affinity.New(shared).Key("a", "max", talk(long, "hello")),
		affinity.New(shared).Key("a", "max", talk(long, "hello")))
}

// told is texts one behind the other, each with its length before it, as a big-endian number of eight bytes.
func told(texts ...string) (all string) {
	for _, s := range texts {
		all += string(binary.BigEndian.AppendUint64(nil, uint64(len(s)))) + s
	}
	return all
}

// TestKeysOfSeveralNodes: nodes that share a secret share keys, of whatever version they are: an HMAC of all that
// makes a conversation, however long it is.
func TestKeysOfSeveralNodes(t *testing.T) {
	t.Parallel()
	secret := []byte("of several nodes")
	book := affinity.New(affinity.Options{Secret: secret})
	for _, n := range []int{0, 1, 1015, 1016, 1017, 2040, 2041, 5000} {
		text := strings.Repeat("x", n) + "y"
		mac := hmac.New(sha256.New, secret)
		_, _ = io.WriteString(mac, told("a", "max", "system", text, "user", text))
		want := mac.Sum(nil)
		got := book.Key("a", "max", talk(text, text))
		require.Equal(t, want[:len(got)], got[:], n)
	}
}

// past is a conversation at home that another route served last.
func past(other, home int64) *routing.Past {
	served := [2]routing.Served{{Route: "other", Warm: other}, {Route: "home", Warm: home}}
	return &routing.Past{Home: "home", Served: served}
}

// TestBook: what was noted is recalled, what was in a cache goes cold, and all of it is forgotten in the end.
func TestBook(t *testing.T) {
	t.Parallel()
	ctx, at := context.Background(), newClock()
	book := affinity.New(affinity.Options{Now: at.now})
	key := book.Key("a", "max", talk("s", "u"))
	require.Nil(t, book.Past(ctx, key))
	book.Note(ctx, key, affinity.Turn{Home: "home", Served: "home", Tokens: 100}, time.Hour)
	at.at = at.at.Add(time.Minute)
	book.Note(ctx, key, affinity.Turn{Home: "home", Served: "other", Tokens: 150}, time.Hour)
	require.Equal(t, past(150, 100),
		book.Past(ctx, key))
	book.Note(ctx, key, affinity.Turn{Home: "home", Served: "other", Tokens: 170}, time.Hour)
	require.Equal(t, past(170, 100),
		book.Past(ctx, key), "one route is there once")
	at.at = at.at.Add(affinity.Warm - time.Minute)
	require.Equal(t, past(170, 0),
		book.Past(ctx, key))
	at.at = at.at.Add(time.Minute)
	require.Equal(t, past(0, 0),
		book.Past(ctx, key))
	at.at = at.at.Add(time.Hour)
	require.Nil(t, book.Past(ctx, key), "its lifetime is over")
}

// TestLocalIsBounded: there are never more than so many, and what was used last is there.
func TestLocalIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(2, 12).Draw(t, "most")
		ctx, at := context.Background(), newClock()
		local := affinity.NewLocal(most, at.now)
		var latest []affinity.Key // the last first
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := affinity.Key{byte(rapid.IntRange(0, 20).Draw(t, "key"))}
			if rapid.Bool().Draw(t, "recall") {
				if _, ok := local.Recall(ctx, key); !ok {
					continue
				}
			} else {
				local.Remember(ctx, key, affinity.Conversation{Home: fmt.Sprint(key[0])}, time.Hour)
			}
			used := []affinity.Key{key}
			for _, k := range latest {
				if k != key {
					used = append(used, k)
				}
			}
			latest = used
			require.LessOrEqual(t, local.Len(), most)
		}
		for _, key := range latest[:min(len(latest), most/2)] {
			c, ok := local.Recall(ctx, key)
			require.True(t, ok)
			require.Equal(t, fmt.Sprint(key[0]), c.Home)
		}
	})
}
