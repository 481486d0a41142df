// Command fareway-provider-echo is package echo as a provider plugin of its own.
package main

import (
	"github.com/fareway/fareway/plugins/echo"
	"github.com/fareway/fareway/plugins/provider"
)

func main() { provider.Serve(echo.New()) }
