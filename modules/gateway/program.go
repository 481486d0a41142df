package gateway

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
)

// Texts call this program fareway, as the custom build is called. A build by xcaddy has the name that people gave it,
// and they type what a hint says.

// program is what people call this executable.
func program() string { return cmp.Or(caddy.CustomBinaryName, filepath.Base(os.Args[0])) }

// own makes the commands in a text, or in a format, those of this executable.
func own(text string) string { return string(ownHints([]byte(text))) }

func ownHints(text []byte) []byte {
	for _, command := range [...]string{"gateway ", "run "} {
		text = bytes.ReplaceAll(text, []byte("fareway "+command), []byte(program()+" "+command))
	}
	return text
}

// ownError is an error whose hints are own.
type ownError struct{ error }

func (e ownError) Error() string { return own(e.error.Error()) }
func (e ownError) Unwrap() error { return e.error }
