package book

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// maxText bounds names, references and reasons, in bytes.
const maxText = 256

func checkName(what, name string) error {
	if name == "" {
		return fmt.Errorf("%w: %s is empty", ledger.ErrInvalid, what)
	}
	return checkText(what, name)
}

// checkTexts checks what an entry says about itself.
func checkTexts(reference, reason string) error {
	if err := checkText("a reference", reference); err != nil {
		return err
	}
	return checkText("a reason", reason)
}

func checkText(what, text string) error {
	if len(text) > maxText || !utf8.ValidString(text) ||
		strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%w: %s has to be UTF-8 without control characters, of at most %d bytes", ledger.ErrInvalid, what,
			maxText)
	}
	return nil
}
