package command

import (
	"bufio"
	"io"
	"strings"
	"unicode/utf8"
)

// column is one column of a listing.
type column struct {
	title string
	align align
}

type align int

const (
	left  align = iota // names
	right              // numbers
)

// listing writes a table of any length in bounded memory: the first rows decide how wide its columns are, and a
// wider cell further down widens its column from there on.
type listing struct {
	w       *bufio.Writer
	columns []column
	widths  []int
	waiting [][]string // rows that are not written yet, the titles first; nil when the widths are known
}

// sampleRows is how many rows decide the widths.
const sampleRows = 500

func newListing(w io.Writer, columns ...column) *listing {
	l := &listing{w: bufio.NewWriter(w), columns: columns, widths: make([]int, len(columns))}
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c.title
	}
	l.waiting = [][]string{titles}
	return l
}

// add takes a row, with a cell for each column.
func (l *listing) add(cells ...string) error {
	if l.waiting == nil {
		return l.write(cells)
	}
	l.waiting = append(l.waiting, cells)
	if len(l.waiting) <= sampleRows {
		return nil
	}
	return l.release()
}

// end writes what waits.
func (l *listing) end() error {
	if err := l.release(); err != nil {
		return err
	}
	return l.w.Flush()
}

func (l *listing) release() error {
	rows := l.waiting
	l.waiting = nil
	for _, row := range rows {
		l.measure(row)
	}
	for _, row := range rows {
		if err := l.write(row); err != nil {
			return err
		}
	}
	return nil
}

func (l *listing) measure(row []string) {
	for i, cell := range row {
		l.widths[i] = max(l.widths[i], utf8.RuneCountInString(cell))
	}
}

func (l *listing) write(row []string) error {
	l.measure(row)
	var line strings.Builder
	for i, cell := range row {
		if i > 0 {
			line.WriteString("  ")
		}
		padding := strings.Repeat(" ", l.widths[i]-utf8.RuneCountInString(cell))
		if l.columns[i].align == right {
			line.WriteString(padding + cell)
		} else {
			line.WriteString(cell + padding)
		}
	}
	_, err := l.w.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	return err
}
