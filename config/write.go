package config

import (
	"fmt"
	"io"
	"strings"
)

// The few ANSI sequences that Write uses.
const (
	ansiRed    = "\x1b[1;31m"
	ansiYellow = "\x1b[1;33m"
	ansiBold   = "\x1b[1m"
	ansiDim    = "\x1b[2m"
	ansiReset  = "\x1b[0m"
)

// Write prints the findings for people: severity and summary, position, the line of the source with a caret
// under its subject, and what to do next. What may be secret in the line is printed as ***.
func (d *Diagnostics) Write(w io.Writer, color bool) error {
	paint := func(code, text string) string {
		if !color {
			return text
		}
		return code + text + ansiReset
	}
	var b strings.Builder
	for i := range d.items {
		item := &d.items[i]
		severity, code := "Error", ansiRed
		if item.Severity == SeverityWarning {
			severity, code = "Warning", ansiYellow
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s %s\n", paint(code, severity+":"), paint(ansiBold, item.Summary))
		fmt.Fprintf(&b, "  %s\n", paint(ansiDim, "at "+item.position()))
		if item.Line > 0 {
			number := fmt.Sprintf("%5d", item.Line)
			fmt.Fprintf(&b, "%s %s\n", paint(ansiDim, number+" |"), item.snippet.text)
			fmt.Fprintf(&b, "%s %s%s\n", paint(ansiDim, strings.Repeat(" ", len(number))+" |"),
				strings.Repeat(" ", item.snippet.indent), paint(code, strings.Repeat("^", item.snippet.carets)))
		}
		for line := range strings.Lines(item.Detail) {
			fmt.Fprintf(&b, "  %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	if d.dropped > 0 {
		fmt.Fprintf(&b, "\nThere are %d more findings; correct these first.\n", d.dropped)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing diagnostics: %w", err)
	}
	return nil
}
