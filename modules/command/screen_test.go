package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rawOutput is what a file may write past the screen, with the reason. All else that commands print is for people, and
// goes through `screen` (or `print`, which has it).
var rawOutput = map[string]string{
	"account.go":           "JSON",
	"backup.go":            "the backup itself",
	"command.go":           "screen and JSON",
	"init.go":              "the operator's own answers, and its questions",
	"key.go":               "JSON",
	"ledger_audit.go":      "JSON lines",
	"ledger_checkpoint.go": "the checkpoint itself, of numbers and digests",
	"ledger_export.go":     "the export itself, JSON lines",
	"ledger_spool.go":      "JSON lines",
	"portal.go":            "JSON",
	"reload.go":            "a number and a time",
	"root.go":              "help and the version",
	"statement.go":         "CSV",
	"top.go":               "the view cleans each cell",
	"up.go":                "what it has made itself",
	"usage.go":             "JSON lines and CSV",
}

// TestCommandsPrintToTheScreen: nothing that anyone can send appears unescaped in a terminal.
func TestCommandsPrintToTheScreen(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	raw := 0
	for _, path := range sources {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		if strings.HasSuffix(path, "_test.go") || !strings.Contains(string(text), "OutOrStdout()") {
			continue
		}
		raw++
		require.Contains(t, rawOutput, path, "it prints past `screen`")
	}
	require.Len(t, rawOutput, raw, "one of them prints nothing any more")
}

const planted = "x\x1b]0;pwned\x07\x1b[2J\u009b31m\u202e"

// TestErrorsAreEscaped: an error may repeat what an upstream or a file says.
func TestErrorsAreEscaped(t *testing.T) {
	t.Parallel()
	inner := errors.New(planted)
	err := shownError{fmt.Errorf("asking: %w", inner)}
	require.Equal(t, `asking: x\x1b]0;pwned\a\x1b[2J\u009b31m\u202e`, err.Error())
	require.ErrorIs(t, err, inner)
}
