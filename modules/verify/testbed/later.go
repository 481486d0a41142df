package testbed

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/plugins/openai"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest/later"
)

// Desk is where a provider that proves later leaves what its replies used, and gets it back as receipts.
type Desk struct {
	*later.Desk
	listener net.Listener
}

// OpenDesk opens one.
func OpenDesk() (*Desk, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the desk for receipts: %w", err)
	}
	d := &Desk{Desk: later.NewDesk(), listener: listener}
	go func() { _ = http.Serve(listener, d.Desk) }() // ends with the listener
	return d, nil
}

// Close ends it.
func (d *Desk) Close() { _ = d.listener.Close() }

// Provider is the provider block over an upstream, and the plugin that it names: this executable again.
func (d *Desk) Provider(base string) (block string, programs map[string]string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("finding this executable: %w", err)
	}
	block = fmt.Sprintf("provider \"up\" {\n plugin = \"later\"\n start_timeout = \"1m\"\n"+
		" config {\n base_url = %q\n desk = %q\n }\n}\n", base,
		"http://"+d.listener.Addr().String())
	script := "#!/bin/sh\nexec '" + strings.ReplaceAll(exe, "'", `'\''`) + "' gateway verify provider\n"
	return block, map[string]string{"plugins/fareway-provider-later": script}, nil
}

// ProviderCommand is the provider of a desk, a process of its own like every provider.
func ProviderCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "provider",
		Short:  "Runs a provider that proves later what it used; a run with --ops itself calls this",
		Hidden: true,
		Args:   cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			provider.Serve(later.New(func(baseURL string) provider.Provider {
				inner := new(openai.OpenAI)
				inner.Settings().(*openai.Settings).BaseURL = baseURL
				return inner
			}))
		},
	}
}
