package affinity

import (
	"math"
	"strings"

	"github.com/fareway/fareway/plugins/llm"
)

// Clients put into the beginning of a conversation what changes from turn to turn, so that none would be like the one
// before it (GAP-134). What is known of that is listed here, exactly and with its source; anything else is taken as it
// is.

// headers begin a first line of the system's that is for the service of Anthropic and no instruction: its hash is made
// anew for each request (anthropics/claude-code issues 24168, 40652 and 68900; ollama/ollama pull request 14918).
var headers = []string{"x-anthropic-billing-header:"}

// Blocks of what a client adds to what its user said, anew in each turn (anthropics/claude-code; sudoprivacy/sudocode
// pull request 128).
const (
	reminder    = "<system-reminder>"
	reminderEnd = "</system-reminder>"
)

// changing begin lines that end a system text: what day it is, and where the client works.
var changing = []string{
	// anomalyco/opencode issue 32622, Kilo-Org/kilocode issue 12666, and Claude Code before them: the block <env>.
	"Here is some useful information about the environment you are running in:", "<env>", "</env>", "Today's date:",
	"Working directory:", "Is directory a git repo:", "Is a git repository:", "Platform:", "OS Version:", "Shell:",
	// can1357/oh-my-pi issue 7324.
	"Today is ",
	// janhq/jan issue 8957.
	"Today's date is ",
	// zeroclaw-labs/zeroclaw issue 10858.
	"## CRITICAL CONTEXT: CURRENT DATE", "Date: ", "UTC offset: ", "[CURRENT DATE & TIME: ",
	// continuedev/continue, RooCodeInc/Roo-Code and cline/cline: environment details.
	"Current date:", "Current time:", "Current Time", "Current date and time:", "Current working directory:",
	"Current Working Directory",
}

// Prepare makes a request of a client ready for Beginning, and for upstreams that keep prompts: a listed header that
// begins its system text is left out, and the listed lines that end one are marked (llm.Message, Changing).
func Prepare(req *llm.Request) {
	dropHeader(req)
	for i := range req.Messages {
		if m := &req.Messages[i]; m.Role == llm.RoleSystem && len(m.Parts) > 0 {
			m.Changing = changingLines(m.Parts[len(m.Parts)-1].Text)
		}
	}
}

// dropHeader leaves out of a request a listed header that begins its system text. It is no instruction, no model is to
// read it, and upstreams keep nothing of a prompt that begins with something else each time.
func dropHeader(req *llm.Request) {
	if len(req.Messages) == 0 || req.Messages[0].Role != llm.RoleSystem || len(req.Messages[0].Parts) == 0 {
		return
	}
	first := &req.Messages[0]
	if raw, _ := first.Parts[0].Text.Plain(); !begins(raw, headers) {
		return
	}
	_, rest, _ := strings.Cut(first.Parts[0].Text.String(), "\n")
	if rest != "" {
		first.Parts[0] = llm.Text(rest)
		return
	}
	if first.Parts = first.Parts[1:]; len(first.Parts) == 0 {
		req.Messages = req.Messages[1:]
	}
}

// longestChanging is how long a line is at most that is looked at, in bytes.
const longestChanging = 1 << 10

// changingLines is how many listed lines end a text, with the blank ones among them and before them.
func changingLines(text llm.String) (n uint16) {
	listed := false
	for ; text.Size() > 0 && n < math.MaxUint16; n++ {
		before, line, short := text.CutLine(longestChanging)
		said := strings.TrimSpace(line.String())
		if !short || said != "" && !begins(said, changing) {
			break
		}
		listed = listed || said != ""
		text = before
	}
	if !listed {
		return 0
	}
	return n
}

func begins(text string, list []string) bool {
	for _, begin := range list {
		if strings.HasPrefix(text, begin) {
			return true
		}
	}
	return false
}

// Beginning hands what stays the same at the beginning of a prepared request to take: the texts up to the user's first
// message, as the client wrote them (plain, or in the form of JSON), without what is known to change.
func Beginning(req *llm.Request, take func(role llm.Role, text string, plain bool)) {
	for i := range req.Messages {
		m := &req.Messages[i]
		for j := range m.Parts {
			text, plain := m.Parts[j].Text.Plain()
			switch {
			case j == len(m.Parts)-1 && m.Changing > 0:
				stays, _ := m.CutChanging()
				text, plain = stays.Plain()
			case m.Role == llm.RoleUser && strings.Contains(text, "system-reminder"):
				if text, plain = withoutReminders(m.Parts[j].Text.String()), true; text == "" {
					continue
				}
			}
			take(m.Role, text, plain)
		}
		if m.Role == llm.RoleUser {
			return
		}
	}
}

// withoutReminders is a user's text without the blocks that begin or end it.
func withoutReminders(text string) string {
	for {
		text = strings.TrimSpace(text)
		if strings.HasPrefix(text, reminder) {
			if _, rest, ended := strings.Cut(text, reminderEnd); ended {
				text = rest
				continue
			}
		}
		before, ended := strings.CutSuffix(text, reminderEnd)
		at := strings.LastIndex(before, reminder)
		if !ended || at < 0 || strings.Contains(before[at:], reminderEnd) {
			return text
		}
		text = text[:at]
	}
}
