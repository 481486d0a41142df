package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Severity says whether a diagnostic refuses the configuration.
type Severity string

const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Diagnostic is one finding about the configuration. No field ever holds the value of an expression or the
// text of a secret.
type Diagnostic struct {
	Severity Severity `json:"severity"`
	Summary  string   `json:"summary"` // what is wrong, a few words
	Detail   string   `json:"detail"`  // what to do next
	File     string   `json:"file"`    // as it was given to Load, or the path of an included one beside it
	Line     int      `json:"line"`    // from 1; 0 when the finding is about the file as a whole
	Column   int      `json:"column"`  // from 1, in characters; 0 like Line

	subject hcl.Range
	snippet snippet
}

// maxDiagnostics bounds what one file can make us say: beyond it nobody reads on.
const maxDiagnostics = 100

// Diagnostics are the findings of one Load in the order of its files. The zero value is empty.
//
// It implements error for callers that only pass it on; use Err, never the pointer itself, where nil means
// that all is well. As JSON it is the array of its findings.
type Diagnostics struct {
	items   []Diagnostic
	dropped int      // findings beyond maxDiagnostics
	sources *sources // nil where nothing could be read
}

// All returns the findings in file order.
func (d *Diagnostics) All() []Diagnostic { return slices.Clone(d.items) }

// keepWithin drops all findings but those about blocks of a type.
func (d *Diagnostics) keepWithin(blocks []*hclsyntax.Block, blockType string) {
	d.dropped = 0
	d.items = slices.DeleteFunc(d.items, func(i Diagnostic) bool {
		return !slices.ContainsFunc(blocks, func(b *hclsyntax.Block) bool {
			return b.Type == blockType && b.Range().Overlaps(i.subject)
		})
	})
}

// HasErrors reports whether the configuration was refused.
func (d *Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(d.items, func(i Diagnostic) bool { return i.Severity == SeverityError })
}

// errors is how many errors there are.
func (d *Diagnostics) errors() int {
	n := 0
	for _, i := range d.items {
		if i.Severity == SeverityError {
			n++
		}
	}
	return n
}

// Err returns the diagnostics as an error if the configuration was refused, nil otherwise.
func (d *Diagnostics) Err() error {
	if !d.HasErrors() {
		return nil
	}
	return d
}

// Error is the first error in one line, and how many more there are. Write prints them all.
func (d *Diagnostics) Error() string {
	first, more := -1, d.dropped
	for i, item := range d.items {
		switch {
		case item.Severity != SeverityError:
		case first < 0:
			first = i
		default:
			more++
		}
	}
	if first < 0 {
		return "loading configuration: no errors"
	}
	item := d.items[first]
	text := fmt.Sprintf("loading configuration: %s: %s: %s", item.Position(), item.Summary, item.Detail)
	switch more {
	case 0:
		return text
	case 1:
		return text + " (and 1 more error)"
	}
	return fmt.Sprintf("%s (and %d more errors)", text, more)
}

// MarshalJSON gives the array of findings: severity, summary, detail, file, line, column.
func (d *Diagnostics) MarshalJSON() ([]byte, error) {
	if d.items == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(d.items)
}

// Position is FILE:LINE:COLUMN, or FILE alone.
func (d *Diagnostic) Position() string {
	if d.Line == 0 {
		return d.File
	}
	return fmt.Sprintf("%s:%d:%d", d.File, d.Line, d.Column)
}

func (d *Diagnostics) add(severity Severity, subject hcl.Range, summary, detail string) {
	if len(d.items) >= maxDiagnostics {
		d.dropped++
		return
	}
	d.items = append(d.items, Diagnostic{
		Severity: severity, Summary: summary, Detail: detail,
		File: subject.Filename, Line: subject.Start.Line, Column: subject.Start.Column,
		subject: subject,
	})
}

// finish puts the findings into the order of the files and cuts their snippets. It comes last, when the sources know
// everything that may be shown.
func (d *Diagnostics) finish(all *sources) {
	d.sources = all
	for _, src := range all.all {
		if !src.sealed {
			src.seal()
		}
	}
	order := func(i *Diagnostic) int {
		if src := all.named[i.File]; src != nil {
			return src.order
		}
		return 0
	}
	slices.SortStableFunc(d.items, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(order(&a), order(&b)), cmp.Compare(a.subject.Start.Byte, b.subject.Start.Byte))
	})
	for i := range d.items {
		if src := all.named[d.items[i].File]; src != nil && d.items[i].Line > 0 {
			d.items[i].snippet = src.snippet(d.items[i].subject)
		}
	}
}

// Interface guards
var (
	_ error          = (*Diagnostics)(nil)
	_ json.Marshaler = (*Diagnostics)(nil)
)
