// Command fareway-provider-bedrock is package bedrock as a provider plugin of its own.
package main

import (
	"github.com/fareway/fareway/plugins/bedrock"
	"github.com/fareway/fareway/plugins/provider"
)

func main() { provider.Serve(bedrock.New()) }
