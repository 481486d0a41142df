package human

import (
	"io"
	"os"

	"golang.org/x/term"
)

// IsTerminal reports whether colors make sense on w (https://no-color.org).
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(f.Fd()))
}
