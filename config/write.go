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
	var b strings.Builder
	for i := range d.items {
		if i > 0 {
			b.WriteByte('\n')
		}
		d.items[i].write(&b, color)
	}
	if d.dropped > 0 {
		fmt.Fprintf(&b, "\nThere are %d more findings; correct these first.\n", d.dropped)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing diagnostics: %w", err)
	}
	return nil
}

// Text is the finding as Write prints it.
func (d *Diagnostic) Text() string {
	var b strings.Builder
	d.write(&b, false)
	return b.String()
}

func (d *Diagnostic) write(b *strings.Builder, color bool) {
	paint := func(code, text string) string {
		if !color {
			return text
		}
		return code + text + ansiReset
	}
	severity, code := "Error", ansiRed
	if d.Severity == SeverityWarning {
		severity, code = "Warning", ansiYellow
	}
	fmt.Fprintf(b, "%s %s\n", paint(code, severity+":"), paint(ansiBold, d.Summary))
	fmt.Fprintf(b, "  %s\n", paint(ansiDim, "at "+d.Position()))
	if d.Line > 0 {
		number := fmt.Sprintf("%5d", d.Line)
		fmt.Fprintf(b, "%s %s\n", paint(ansiDim, number+" |"), d.snippet.text)
		fmt.Fprintf(b, "%s %s%s\n", paint(ansiDim, strings.Repeat(" ", len(number))+" |"),
			strings.Repeat(" ", d.snippet.indent), paint(code, strings.Repeat("^", d.snippet.carets)))
	}
	for line := range strings.Lines(d.Detail) {
		fmt.Fprintf(b, "  %s\n", strings.TrimSuffix(line, "\n"))
	}
}
