package gateway

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
)

// program is what people call this executable: a build by xcaddy has the name that they gave it.
func program() string { return cmp.Or(caddy.CustomBinaryName, filepath.Base(os.Args[0])) }

// ownHints makes the commands that a text tells people to type those of this executable.
func ownHints(text []byte) []byte {
	for _, command := range [...]string{"gateway ", "run "} {
		text = bytes.ReplaceAll(text, []byte("fareway "+command), []byte(program()+" "+command))
	}
	return text
}
