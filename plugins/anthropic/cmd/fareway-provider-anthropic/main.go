// Command fareway-provider-anthropic is package anthropic as a provider plugin of its own.
package main

import (
	"github.com/fareway/fareway/plugins/anthropic"
	"github.com/fareway/fareway/plugins/provider"
)

func main() { provider.Serve(anthropic.New()) }
