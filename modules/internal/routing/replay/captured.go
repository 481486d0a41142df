package replay

import (
	"math/rand/v2"
	"time"

	"github.com/fareway/fareway/plugins/llm"
)

// Capture is a request that a client really sent. Its texts are not looked at: they may be blotted out.
type Capture struct {
	Client  string // which requests of one client came one after the other
	Request *llm.Request
	Tokens  int64 // of the request
}

// Captured makes conversations with the structure of those that clients had: as they were, and those of agents with
// tools carried on for as long as made ones. What was said, how long replies are and what time passed is made up, from
// the seed; each conversation is made a few times.
func Captured(captures []Capture, seed uint64) []Set {
	r := rand.New(rand.NewPCG(seed, 17))
	as, on := Set{Name: "captured"}, Set{Name: "captured agents, carried on"}
	const times = 4
	for _, turns := range conversations(captures) {
		last := turns[len(turns)-1].Request
		for range times {
			b := builder{r: r, theme: themeOf(r)}
			b.fill(last.Messages)
			b.after = time.Duration(20+r.IntN(300)) * time.Second
			all, begun := b.messages, len(turns[0].Request.Messages)
			for _, turn := range turns {
				b.messages, b.tokens, b.tools = all[:len(turn.Request.Messages)], turn.Tokens, turn.Request.Tools
				b.turn(50 + r.Int64N(300))
			}
			as.Conversations = append(as.Conversations, b.done())
			if len(b.tools) == 0 || !calls(last) {
				continue
			}
			b.turns, b.messages, b.tokens = nil, all[:begun:begun], turns[0].Tokens
			for range 8 + r.IntN(30) {
				b.calls(30+r.Int64N(200), 100+r.Int64N(3000))
			}
			b.replies(100 + r.Int64N(500))
			on.Conversations = append(on.Conversations, b.done())
		}
	}
	return []Set{as, on}
}

// conversations puts requests together of which each goes on where one before it ended: after the same roles, more.
func conversations(captures []Capture) (all [][]Capture) {
	for _, c := range captures {
		if len(c.Request.Messages) == 0 {
			continue
		}
		at := -1
		for i, turns := range all {
			last := turns[len(turns)-1]
			if last.Client == c.Client && len(last.Request.Tools) == len(c.Request.Tools) &&
				continues(c.Request.Messages, last.Request.Messages) {
				at = i // the latest one
			}
		}
		if at < 0 {
			all = append(all, nil)
			at = len(all) - 1
		}
		all[at] = append(all[at], c)
	}
	return all
}

func continues(messages, before []llm.Message) bool {
	if len(messages) <= len(before) {
		return false
	}
	for i := range before {
		if messages[i].Role != before[i].Role {
			return false
		}
	}
	return true
}

func calls(req *llm.Request) bool {
	for i := range req.Messages {
		if req.Messages[i].Role == llm.RoleTool {
			return true
		}
	}
	return false
}

// fill says something in the place of each text: the user's last text of a message asks, and those before it tell what
// there is.
func (b *builder) fill(messages []llm.Message) {
	for i := range messages {
		m := messages[i]
		m.Parts = nil
		for j, p := range messages[i].Parts {
			text := "You help with a project."
			switch {
			case p.Call != nil:
				m.Parts = append(m.Parts, p)
				continue
			case m.Role == llm.RoleUser && j == len(messages[i].Parts)-1:
				text = b.ask()
			case m.Role == llm.RoleUser, m.Role == llm.RoleTool:
				text = b.result()
			case m.Role == llm.RoleAssistant:
				text = "Done."
			}
			m.Parts = append(m.Parts, llm.Text(text))
		}
		b.messages = append(b.messages, m)
	}
}
