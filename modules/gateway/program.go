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

// Program is what people call this executable.
func Program() string { return cmp.Or(caddy.CustomBinaryName, filepath.Base(os.Args[0])) }

// Own makes the commands in a text, or in a format, those of this executable.
func Own(text string) string { return string(OwnHints([]byte(text))) }

// OwnHints is Own.
func OwnHints(text []byte) []byte {
	for _, command := range [...]string{"gateway ", "run "} {
		text = bytes.ReplaceAll(text, []byte("fareway "+command), []byte(Program()+" "+command))
	}
	return text
}

// OwnError is an error with its hints made own.
func OwnError(err error) error { return ownError{err} }

type ownError struct{ error }

func (e ownError) Error() string { return Own(e.error.Error()) }
func (e ownError) Unwrap() error { return e.error }
