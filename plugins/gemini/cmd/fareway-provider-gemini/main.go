// Command fareway-provider-gemini is package gemini as a provider plugin of its own.
package main

import (
	"github.com/fareway/fareway/plugins/gemini"
	"github.com/fareway/fareway/plugins/provider"
)

func main() { provider.Serve(gemini.New()) }
