// Command fareway-provider-openai is package openai as a provider plugin of its own.
package main

import (
	"github.com/fareway/fareway/plugins/openai"
	"github.com/fareway/fareway/plugins/provider"
)

func main() { provider.Serve(openai.New()) }
