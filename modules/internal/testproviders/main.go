// Command testproviders is every provider of the contract tests in modules: `testproviders NAME` is the process of
// one. It is a command of its own because a test starts some of these processes, and the tests' own binary, which
// links Caddy and client libraries, takes ten times as long to start.
package main

import (
	"fmt"
	"os"

	"github.com/fareway/fareway/plugins/anthropic"
	"github.com/fareway/fareway/plugins/bedrock"
	"github.com/fareway/fareway/plugins/echo"
	"github.com/fareway/fareway/plugins/gemini"
	"github.com/fareway/fareway/plugins/ollama"
	"github.com/fareway/fareway/plugins/openai"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest/later"
	"github.com/fareway/fareway/plugins/responses"
)

var providers = map[string]func() provider.Provider{
	"anthropic": anthropic.New, "bedrock": bedrock.New, "echo": echo.New, "gemini": gemini.New, "ollama": ollama.New,
	"openai": openai.New, "responses": responses.New, "guard": newGuard, "later": newLater, "prover": newProver,
	"sage": newSage,
}

func main() {
	if len(os.Args) != 2 || providers[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: testproviders NAME, with the name of a provider of the tests")
		os.Exit(2)
	}
	provider.Serve(providers[os.Args[1]]())
}

// newLater makes a provider openai that proves later what it used.
func newLater() provider.Provider {
	return later.New(func(baseURL string) provider.Provider {
		inner := new(openai.OpenAI)
		inner.Settings().(*openai.Settings).BaseURL = baseURL
		return inner
	})
}
