package conform

import (
	"slices"
	"strings"
	"sync"

	"github.com/fareway/fareway/plugins/llm"
)

// Nothing is what stands for somebody who says nothing, where an upstream wants that he says something.
const Nothing = "."

const (
	unanswered = "There is no result: the call was interrupted."
	toolFailed = "Error: the tool failed."
)

// scratch is what looking at a request needs, used again.
type scratch struct {
	rules rules
	ids   map[string]struct{} // of the calls so far
	text  []byte
}

var scratches = sync.Pool{New: func() any { return &scratch{ids: map[string]struct{}{}} }}

func (s *scratch) done() {
	const mostIDs, mostText = 1 << 12, 1 << 20
	if len(s.ids) > mostIDs || cap(s.text) > mostText {
		return
	}
	clear(s.ids)
	scratches.Put(s)
}

// fitMessages reports whether a conversation is as the upstream takes it. It says no to some that are: those cost more
// and stay what they are.
func (r *rules) fitMessages(messages []llm.Message, s *scratch) bool {
	spoken := false // somebody other than the system
	for i := 0; i < len(messages); i++ {
		m := &messages[i]
		if !r.fitParts(m) {
			return false
		}
		switch m.Role {
		case llm.RoleSystem:
			if i > 0 && r.has(laterSystem) {
				return false
			}
			continue
		case llm.RoleTool: // those behind their calls were stepped over
			return false
		case llm.RoleAssistant:
			if !spoken && r.has(assistantFirst) {
				return false
			}
		}
		spoken = true
		if i > 0 && messages[i-1].Role == m.Role && r.has(repeatedRoles) ||
			i > 0 && messages[i-1].Role == llm.RoleTool && m.Role == llm.RoleUser && r.has(userAfterResult) {
			return false
		}
		if m.Role == llm.RoleAssistant {
			answers, ok := r.fitCalls(messages[i:], s)
			if !ok {
				return false
			}
			i += answers
		}
	}
	if n := len(messages); n > 0 && messages[n-1].Role == llm.RoleAssistant && r.has(assistantLast) {
		return false
	}
	return spoken || !r.has(systemAlone)
}

// fitParts reports whether a message can be said as it is.
func (r *rules) fitParts(m *llm.Message) bool {
	says := 0
	for j := range m.Parts {
		p := &m.Parts[j]
		if p.Call == nil && r.has(blankText) && p.Text.Blank() {
			return false
		}
		if p.Call != nil || p.Text.Size() > 0 {
			says++
		}
	}
	switch {
	case says == 0 && m.Role == llm.RoleAssistant && r.has(emptyAssistant|blankText),
		says == 0 && m.Role != llm.RoleTool && r.has(blankText),
		len(m.Parts) > 1 && r.has(textParts) && m.Parts[1].Call == nil,
		m.Role == llm.RoleTool && m.IsError && r.has(resultErrors):
		return false
	}
	return true
}

// fitCalls reports whether the calls of a turn are as they are to be, and that just their results stand behind it; it
// returns how many those are.
func (r *rules) fitCalls(messages []llm.Message, s *scratch) (answers int, ok bool) {
	calls := 0
	const most = 64 // which are compared with each other
	for j := range messages[0].Parts {
		call := messages[0].Parts[j].Call
		if call == nil {
			continue
		}
		_, repeated := s.ids[call.ID]
		if calls++; calls > most || repeated || !r.ids.fits(call.ID) || !s.fitArguments(call.Arguments) {
			return 0, false
		}
		s.ids[call.ID] = struct{}{}
	}
	for answers < len(messages)-1 && messages[answers+1].Role == llm.RoleTool {
		answers++
	}
	if answers != calls {
		return 0, false
	}
	for i := range answers {
		m := &messages[1+i]
		calledHere := slices.ContainsFunc(
			messages[0].Parts,
			func(p llm.Part) bool { return p.Call != nil && p.Call.ID == m.CallID },
		)
		again := slices.ContainsFunc(messages[1:1+i], func(o llm.Message) bool { return o.CallID == m.CallID })
		if !calledHere || again || !r.fitParts(m) {
			return 0, false
		}
	}
	return answers, true
}

// converse makes the conversation one that the upstream takes.
func (r *rules) converse(req *llm.Request) {
	c := conversation{rules: r, states: req.States}
	for _, m := range answered(req.Messages) {
		c.add(m)
	}
	c.close()
	req.Messages, req.States = c.out, c.renamed()
}

// turn is a message, with the results of its calls.
type turn struct {
	llm.Message
	results []result // in the order that they came in
}

// result is what answers one of a turn's calls.
type result struct {
	llm.Message
	call int // the how manieth of the turn
}

// asked is a call of a turn.
type asked struct {
	turn *turn
	call int
}

// answered puts results behind their calls. A second result of a call is part of the first one, and one of no call is
// what the user says.
func answered(messages []llm.Message) []*turn {
	var turns []*turn
	open, last := map[string][]asked{}, map[string]asked{} // by the calls' ids
	for _, m := range messages {
		t := &turn{Message: m}
		if m.Role != llm.RoleTool {
			turns = append(turns, t)
			t.noteCalls(open)
			continue
		}
		if waiting := open[m.CallID]; len(waiting) > 0 {
			open[m.CallID], last[m.CallID] = waiting[1:], waiting[0]
		}
		if to := last[m.CallID]; to.turn != nil {
			to.turn.answer(to.call, m)
			continue
		}
		t.Role, t.CallID, t.IsError = llm.RoleUser, "", false
		turns = append(turns, t)
	}
	return turns
}

// noteCalls notes the calls of a turn. Those of an earlier one with the same id are not answered any more.
func (t *turn) noteCalls(open map[string][]asked) {
	calls := 0
	for _, part := range t.Parts {
		if part.Call == nil {
			continue
		}
		waiting := open[part.Call.ID]
		if len(waiting) > 0 && waiting[0].turn != t {
			waiting = nil
		}
		open[part.Call.ID] = append(waiting, asked{t, calls})
		calls++
	}
}

func (t *turn) answer(call int, m llm.Message) {
	for i := range t.results {
		if first := &t.results[i]; first.call == call {
			first.Parts = slices.Concat(first.Parts, m.Parts)
			first.IsError = first.IsError || m.IsError
			return
		}
	}
	t.results = append(t.results, result{m, call})
}

// conversation is written message by message.
type conversation struct {
	rules  *rules
	out    []llm.Message
	spoken bool // somebody other than the system
	silent bool // somebody else had something to say, and it was nothing

	ids    map[string]bool // of the calls so far, as the upstream sees them
	states map[string][]byte
	moved  map[string][]byte // states by ids that are not the client's
}

// add adds a turn.
func (c *conversation) add(t *turn) {
	m := t.Message
	m.Parts = c.rules.texts(m.Parts)
	says := slices.ContainsFunc(m.Parts, func(p llm.Part) bool { return p.Call != nil || p.Text.Size() > 0 })
	silent := m.Role == llm.RoleUser || m.Role == llm.RoleSystem
	if !says &&
		(silent && c.rules.has(blankText) || m.Role == llm.RoleAssistant && c.rules.has(blankText|emptyAssistant)) {
		c.silent = c.silent || m.Role == llm.RoleUser
		return
	}
	if m.Role != llm.RoleAssistant {
		c.say(m)
		return
	}
	ids := c.calls(&m)
	c.say(m)
	answered := make([]bool, len(ids))
	for _, res := range t.results {
		answered[res.call] = true
		c.result(ids[res.call], res.Message)
	}
	for call, id := range ids {
		if !answered[call] {
			c.result(id, llm.Message{Role: llm.RoleTool, Parts: []llm.Part{llm.Text(unanswered)}, IsError: true})
		}
	}
}

// say adds a message that is no result, where its role can stand there.
func (c *conversation) say(m llm.Message) {
	r := c.rules
	if m.Role == llm.RoleSystem && r.has(laterSystem) {
		if c.spoken {
			m.Role = llm.RoleUser
		} else if len(c.out) > 0 {
			c.join(m)
			return
		}
	}
	last := llm.RoleSystem
	if len(c.out) > 0 {
		last = c.out[len(c.out)-1].Role
	}
	switch {
	case m.Role != llm.RoleUser && m.Role != llm.RoleAssistant: // the system, or a role that nobody knows
		c.out = append(c.out, m)
		return
	case m.Role == llm.RoleAssistant && !c.spoken && (r.has(assistantFirst)):
		c.out = append(c.out, nothing(llm.RoleUser))
	case m.Role == llm.RoleUser && last == llm.RoleTool && r.has(userAfterResult):
		c.out = append(c.out, nothing(llm.RoleAssistant))
	case m.Role == last && r.has(repeatedRoles):
		c.join(m)
		return
	}
	c.out, c.spoken = append(c.out, m), true
}

// join makes a message part of the last one.
func (c *conversation) join(m llm.Message) {
	last := &c.out[len(c.out)-1]
	last.Parts = c.rules.texts(slices.Concat(last.Parts, m.Parts))
}

func nothing(role llm.Role) llm.Message {
	return llm.Message{Role: role, Parts: []llm.Part{llm.Text(Nothing)}}
}

// result adds the result of a call.
func (c *conversation) result(id string, m llm.Message) {
	m.CallID = id
	if m.IsError && c.rules.has(resultErrors) {
		m.Parts, m.IsError = slices.Concat([]llm.Part{llm.Text(toolFailed)}, m.Parts), false
	}
	m.Parts = c.rules.texts(m.Parts)
	c.out = append(c.out, m)
}

// close ends the conversation: somebody has to have said something.
func (c *conversation) close() {
	switch {
	case c.spoken:
		if c.out[len(c.out)-1].Role == llm.RoleAssistant && c.rules.has(assistantLast) {
			c.out = append(c.out, nothing(llm.RoleUser))
		}
	case c.silent && c.rules.has(blankText):
		c.out = append(c.out, nothing(llm.RoleUser))
	case c.rules.has(systemAlone) && len(c.out) > 0:
		for i := range c.out {
			if c.out[i].Role == llm.RoleSystem {
				c.out[i].Role = llm.RoleUser // instructions without a question are the question
			}
		}
	}
}

// calls makes the calls of a message such as the upstream takes, and returns their ids.
func (c *conversation) calls(m *llm.Message) (ids []string) {
	copied := false
	for j := range m.Parts {
		if m.Parts[j].Call == nil {
			continue
		}
		if !copied {
			m.Parts, copied = slices.Clone(m.Parts), true
		}
		call := *m.Parts[j].Call
		call.ID = c.id(call.ID)
		call.Arguments = arguments(call.Arguments)
		m.Parts[j].Call = &call
		ids = append(ids, call.ID)
	}
	return ids
}

// id is the id of a call as the upstream sees it: that of the client where it fits and is new.
func (c *conversation) id(id string) string {
	if c.ids == nil {
		c.ids = map[string]bool{}
	}
	upstream := id
	for n := 0; !c.rules.ids.fits(upstream) || c.ids[upstream]; n++ {
		upstream = c.rules.ids.apart(id, n)
	}
	c.ids[upstream] = true
	if state, kept := c.states[id]; kept && upstream != id {
		if c.moved == nil {
			c.moved = map[string][]byte{}
		}
		c.moved[upstream] = state
	}
	return upstream
}

// renamed are the states by the ids that the upstream sees.
func (c *conversation) renamed() map[string][]byte {
	if c.moved == nil {
		return c.states
	}
	for id, state := range c.states {
		if _, taken := c.moved[id]; !taken {
			c.moved[id] = state
		}
	}
	return c.moved
}

// texts are the parts of a message as the upstream takes texts.
func (r *rules) texts(parts []llm.Part) []llm.Part {
	if r.has(blankText) && slices.ContainsFunc(parts, blank) {
		parts = slices.DeleteFunc(slices.Clone(parts), blank)
	}
	if len(parts) < 2 || !r.has(textParts) {
		return parts
	}
	var texts []string
	var calls []llm.Part
	for _, p := range parts {
		switch {
		case p.Call != nil:
			calls = append(calls, p)
		case p.Text.Size() > 0:
			texts = append(texts, p.Text.String())
		}
	}
	if len(texts) == 0 {
		return calls
	}
	return append([]llm.Part{llm.Text(strings.Join(texts, "\n"))}, calls...)
}

func blank(p llm.Part) bool { return p.Call == nil && p.Text.Blank() }
