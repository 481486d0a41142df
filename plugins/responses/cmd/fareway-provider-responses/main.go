// Command fareway-provider-responses is package responses as a provider plugin of its own.
package main

import (
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/responses"
)

func main() { provider.Serve(responses.New()) }
