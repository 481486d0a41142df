package human

import (
	"io"
	"os"

	"golang.org/x/term"
)

// IsInteractive reports whether a person is likely to answer at r.
func IsInteractive(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// IsTerminal reports whether colors make sense on w (https://no-color.org).
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(f.Fd()))
}
