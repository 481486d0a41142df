package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

// guard is a provider that screens by what a text has in it.
type guard struct{ provider.ScreenerOnly }

func newGuard() provider.Provider { return new(guard) }

func (*guard) Screen(ctx context.Context, texts []llm.ScreenText) (llm.Verdict, error) {
	verdict := llm.Verdict{Action: llm.VerdictAllow}
	for _, t := range texts {
		for word, does := range map[string]func(){
			"mortar shell": func() {
				verdict = llm.Verdict{Action: llm.VerdictBlock, Categories: []string{"violence/weapons", "minors"}}
			},
			"cider": func() { verdict = llm.Verdict{Action: llm.VerdictFlag, Categories: []string{"spirits"}} },
			"dawdle": func() {
				<-ctx.Done()
				verdict.Action = llm.VerdictBlock // nobody hears it
			},
			"mumble":  func() { verdict.Action = "perhaps" },
			"chatter": func() { verdict.Categories = []string{"a text with blanks, such as " + t.Text} },
			"expire":  func() { os.Exit(3) },
		} {
			if strings.Contains(t.Text, word) {
				does()
			}
		}
		if strings.Contains(t.Text, "stumble") {
			return verdict, errors.New("the model of this guard is away")
		}
	}
	return verdict, nil
}
