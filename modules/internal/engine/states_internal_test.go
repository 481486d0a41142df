package engine

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// TestStates proves GAP-117 against a model: a state is found by its account, route, upstream and call, behind what
// was said before it, and by nothing else, as long as it was used within the hour.
func TestStates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1e9, 0)
		s := newStates(func() time.Time { return now })
		type known struct {
			value   string
			expires time.Time
		}
		model := map[stateKey]known{}
		names, numbers := rapid.SampledFrom([]string{"", "a", "b", "ab"}), rapid.Uint64Range(0, 1)
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := stateKey{StateHolder{names.Draw(t, "account"), names.Draw(t, "route"), numbers.Draw(t, "upstream")},
				StateCall{names.Draw(t, "call"), numbers.Draw(t, "before")}}
			now = now.Add(time.Duration(rapid.IntRange(0, 25).Draw(t, "minutes")) * time.Minute)
			if rapid.Bool().Draw(t, "keeps") {
				value := fmt.Sprint(key, i)
				s.Keep(key.StateHolder, key.StateCall, []byte(value))
				model[key] = known{value, now.Add(stateAge)}
			} else {
				want, ok := model[key]
				if ok = ok && now.Before(want.expires); ok {
					model[key] = known{want.value, now.Add(stateAge)}
				} else {
					want.value = ""
				}
				found, size := s.Find(key.StateHolder, []StateCall{key.StateCall})
				require.Equal(t, want.value, string(found[key.ID]))
				require.EqualValues(t, len(want.value), size)
			}
			size, held := 0, map[StateHolder]int{}
			for e := s.used.Front(); e != nil; e = e.Next() {
				size += e.Value.(*state).size()
				held[e.Value.(*state).key.StateHolder]++
			}
			require.Equal(t, size, s.bytes)
			require.Equal(t, held, s.held)
			require.Len(t, s.byCall, s.used.Len())
		}
	})
}

// TestStatesAreBounded: what was used longest ago goes first, and what nobody asks for goes when others come.
func TestStatesAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	s := newStates(func() time.Time { return now })
	holder := StateHolder{"a", "r", 7}
	call := func(i int) StateCall { return StateCall{fmt.Sprint(i), 1} }
	has := func(i int) bool {
		found, _ := s.Find(holder, []StateCall{call(i)})
		return found != nil
	}
	large := make([]byte, maxReturned-stateCost/2)
	for i := range 3 {
		s.Keep(holder, call(i), large)
	}
	large[0] = 1 // what is kept is a copy
	found, size := s.Find(holder, []StateCall{call(0)})
	require.Zero(t, found["0"][0])
	require.EqualValues(t, len(large), size)
	s.Keep(holder, call(3), large)
	require.LessOrEqual(t, s.bytes, maxStates)
	require.False(t, has(1), "it was used longest ago")
	require.True(t, has(0))

	found, size = s.Find(holder, []StateCall{call(2), call(3)})
	require.Len(t, found, 1, "a request does not get any number of bytes back")
	require.Contains(t, found, "3", "the latest calls come first")
	require.EqualValues(t, len(large), size)

	s.Keep(holder, call(4), make([]byte, maxStates))
	require.Zero(t, s.bytes, "one that is too large is not kept, and nothing beside it")
	require.Empty(t, s.held)
	s.Keep(holder, call(5), large)
	now = now.Add(stateAge)
	s.Keep(holder, call(6), nil)
	require.Len(t, s.byCall, 1, "nobody has to ask for what is too old")
}

// TestCallsOfConversations: a call is known by what the client said before it, however it writes the replies.
func TestCallsOfConversations(t *testing.T) {
	t.Parallel()
	s := newStates(time.Now)
	said := func(role llm.Role, text string) llm.Message {
		return llm.Message{Role: role, Parts: []llm.Part{llm.Text(text)}}
	}
	called := func(ids ...string) llm.Message {
		m := llm.Message{Role: llm.RoleAssistant}
		for _, id := range ids {
			m.Parts = append(m.Parts, llm.Part{Call: &llm.ToolCall{ID: id, Name: "f"}})
		}
		return m
	}
	result := func(id, text string) llm.Message {
		m := said(llm.RoleTool, text)
		m.CallID = id
		return m
	}
	tools := []llm.Tool{{Name: "f", Description: "d", Schema: json.RawMessage(`{}`)}}
	calls := func(tools []llm.Tool, messages ...llm.Message) []StateCall {
		list, _ := s.Calls(&llm.Request{Tools: tools, Messages: messages})
		return list
	}
	system, user := said(llm.RoleSystem, "s"), said(llm.RoleUser, "u")
	_, now := s.Calls(&llm.Request{Tools: tools, Messages: []llm.Message{system, user}})
	want := []StateCall{{"a", now}, {"b", now}}
	require.Equal(t, want, calls(tools, system, user, called("a", "b")))
	for what, same := range map[string][]StateCall{
		"parted":       calls(tools, system, user, called("a"), called("b")),
		"other words":  calls(tools, system, user, said(llm.RoleAssistant, "well"), called("a", "b")),
		"what follows": calls(tools, system, user, called("a", "b"), result("a", "x"), said(llm.RoleUser, "more")),
	} {
		require.Equal(t, want, same, what)
	}
	tool := func(name, description, schema string) []StateCall {
		return calls([]llm.Tool{{Name: name, Description: description, Schema: json.RawMessage(schema)}}, system, user,
			called("a"))
	}
	reply := said(llm.RoleAssistant, "r")
	for what, other := range map[string][]StateCall{
		"another tool":        tool("g", "d", "{}"),
		"another description": tool("f", "e", "{}"),
		"another schema":      tool("f", "d", "[]"),
		"no instructions":     calls(tools, user, called("a")),
		"other instructions":  calls(tools, said(llm.RoleSystem, "t"), user, called("a")),
		"another role":        calls(tools, said(llm.RoleUser, "s"), user, called("a")),
		"another question":    calls(tools, system, said(llm.RoleUser, "v"), called("a")),
		"another turn":        calls(tools, system, user, reply, said(llm.RoleUser, "v"), called("a")),
	} {
		require.Len(t, other, 1, what)
		require.Equal(t, "a", other[0].ID)
		require.NotEqual(t, now, other[0].Before, what)
	}
	after := func(id, text string) uint64 {
		return calls(tools, user, called("a"), result(id, text), called("c"))[1].Before
	}
	require.Equal(t, after("a", "x"), after("a", "x"))
	require.NotEqual(t, after("a", "x"), after("a", "y"))
	require.NotEqual(t, after("a", "x"), after("b", "x"))
	require.Equal(t, []StateCall{{"b", now}}, calls(tools, system, user, called("a", "b"), result("a", "x"), called("a")),
		"an id that comes twice says nothing")
}

// TestStateHolders: another service behind a route is another one, though the names stay.
func TestStateHolders(t *testing.T) {
	t.Parallel()
	s := newStates(time.Now)
	holder := func(p config.Provider, route config.Route) StateHolder {
		g := &Generation{states: s, setups: map[string]uint64{p.Name: s.setup(&p)}}
		return g.StateHolder("acc", &route)
	}
	p := config.Provider{Name: "p", Plugin: "openai", SHA256: "1", Settings: settings.Values(`{"api_key":"1"}`)}
	route := config.Route{Name: "r", Provider: "p", Model: "m"}
	same := holder(p, route)
	require.Equal(t, same, holder(p, route))
	for _, change := range []func(){
		func() { p.Plugin = "anthropic" },
		func() { p.SHA256 = "2" },
		func() { p.Settings = settings.Values(`{"api_key":"2"}`) },
		func() { p.Keys = []config.Key{{Settings: settings.Values(`{"api_key":"3"}`)}} },
		func() { route.Model = "n" },
		func() { route.Name = "q" },
		func() { p.Name, route.Provider = "other", "other" },
	} {
		before := holder(p, route)
		change()
		require.NotEqual(t, before, holder(p, route))
	}
}
