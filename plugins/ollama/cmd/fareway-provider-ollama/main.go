// Command fareway-provider-ollama is package ollama as a provider plugin of its own.
package main

import (
	"github.com/fareway/fareway/plugins/ollama"
	"github.com/fareway/fareway/plugins/provider"
)

func main() { provider.Serve(ollama.New()) }
