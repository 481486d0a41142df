package top

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// onceRows is how many accounts and requests a report has.
const onceRows = 20

// Limited is a frame with so many accounts and requests as a report has.
func (f *Frame) Limited() *Frame {
	short := *f
	short.Accounts = short.Accounts[:min(len(short.Accounts), ShownAccounts)]
	short.Requests = short.Requests[:min(len(short.Requests), onceRows)]
	return &short
}

// Write writes all tabs of a frame as text, one below the other, in so many columns.
func (f *Frame) Write(w io.Writer, width int) error {
	var ui UI
	lines := f.head(&ui, width, 24)
	lines = lines[:len(lines)-1] // the tabs
	for t := range tabs {
		if t == Problems && len(f.Problems) < 2 { // the head has it
			continue
		}
		ui.Tab = t
		g := f.grid(t, &ui)
		more := max(0, len(g.rows)-onceRows)
		if t == Routes || t == Problems || t == Plugins {
			more = 0
		}
		g.rows = g.rows[:len(g.rows)-more]
		title := t.String()
		if t == Accounts {
			title += ", last " + span(f.Time.Sub(f.AccountsSince))
		}
		if more > 0 {
			title += fmt.Sprintf(" (and %d more)", more)
		}
		lines = append(lines, "", strings.ToUpper(title[:1])+title[1:])
		if len(g.rows) == 0 {
			lines = append(lines, g.empty)
			continue
		}
		titles := g.titles(-1, false)
		widths := g.widths(width, append([]row{titles}, g.rows...))
		for _, r := range append([]row{titles}, g.rows...) {
			lines = append(lines, g.line(r, widths, width, plain))
		}
	}
	for i := range lines {
		lines[i] = strings.TrimRight(ansi.Strip(lines[i]), " ")
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}
