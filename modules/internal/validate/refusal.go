package validate

import (
	"errors"
	"strings"

	"github.com/fareway/fareway/plugins/llm"
)

// refusals are how replies begin that refuse, in lower case and with plain apostrophes.
var refusals = []string{
	"i'm sorry, but i can", "i am sorry, but i can", "i'm sorry, i can", "sorry, but i can", "sorry, i can",
	"i can't help with", "i cannot help with", "i can't assist with", "i cannot assist with",
	"i'm unable to help", "i am unable to help", "i'm unable to assist", "i am unable to assist",
	"i'm not able to help", "i am not able to help", "i won't be able to", "i can't comply", "i cannot comply",
	"i can't provide", "i cannot provide", "i can't fulfill", "i cannot fulfill", "i must decline",
	"as an ai language model, i can", "as an ai, i can",
}

// shortRefusal is how long a refusal is at most, in bytes: what goes on for longer says something else as well.
const shortRefusal = 600

func notRefusal(_ *llm.Request, r *Reply) error {
	if r.Declined {
		return errors.New("the route declined it")
	}
	if len(r.Calls) > 0 || len(r.Text) > shortRefusal {
		return nil
	}
	text := strings.ToLower(strings.TrimSpace(strings.ReplaceAll(r.Text, "’", "'")))
	for _, refusal := range refusals {
		if rest, ok := strings.CutPrefix(text, refusal); ok && !strings.HasPrefix(rest, " help but") {
			return errors.New("it refuses")
		}
	}
	return nil
}
