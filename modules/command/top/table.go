package top

import (
	"cmp"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/fareway/fareway/modules/internal/human"
)

// column is a column of a table.
type column struct {
	title string
	right bool // numbers
	// shrink is to how few columns of the terminal it may be made narrower before others are left out, 0 for none; drop
	// is when it is left out where there is no room, the highest first, 0 for never.
	shrink, drop int
	// least is how wide it is at least, so that the table stands still while numbers change.
	least int
}

// cell is what stands in one.
type cell struct {
	text  string
	style style
	order *float64 // what it is sorted by, the largest first; nil: by its text
}

func textCell(text string, s style) cell { return cell{text: human.Printable(text), style: s} }

func numberCell(text string, v *float64, s style) cell {
	if v == nil {
		v = new(-1.0)
	}
	return cell{text: text, style: s, order: v}
}

// row is a line of a table. Its key says what it is about, so that a cursor finds it where it has moved.
type row struct {
	key   string
	cells []cell
}

// grid is a table of one tab.
type grid struct {
	columns []column
	rows    []row
	empty   string // what stands there without rows
}

// filtered are the rows in which a text is found, whatever the case of its letters.
func (g *grid) filtered(text string) {
	if text == "" {
		return
	}
	text = strings.ToLower(text)
	g.rows = slices.DeleteFunc(g.rows, func(r row) bool {
		return !strings.Contains(strings.ToLower(r.key), text) && !slices.ContainsFunc(r.cells, func(c cell) bool {
			return strings.Contains(strings.ToLower(c.text), text)
		})
	})
	if len(g.rows) == 0 {
		g.empty = "Nothing here has \"" + human.Printable(text) + "\" in it. Esc shows all."
	}
}

// sorted sorts by a column, -1 for none.
func (g *grid) sorted(by int, reverse bool) {
	if by >= 0 {
		slices.SortStableFunc(g.rows, func(a, b row) int {
			x, y := a.cells[by], b.cells[by]
			if x.order != nil && y.order != nil {
				return cmp.Compare(*y.order, *x.order)
			}
			return strings.Compare(x.text, y.text)
		})
	}
	if reverse {
		slices.Reverse(g.rows)
	}
}

const (
	// gap is between two columns.
	gap = 1
	// narrowest is how narrow a column becomes where nothing can be left out any more.
	narrowest = 5
)

// widths says how wide each column is in so much room, 0 for one that is left out.
func (g *grid) widths(room int, shown []row) []int {
	widths := make([]int, len(g.columns))
	for i, c := range g.columns {
		widths[i] = max(ansi.StringWidth(c.title), c.least)
		for _, r := range shown {
			widths[i] = max(widths[i], ansi.StringWidth(r.cells[i].text))
		}
	}
	total := func() (sum int) {
		for _, w := range widths {
			if w > 0 {
				sum += w + gap
			}
		}
		return sum - gap
	}
	least := func(c column) int { return c.shrink }
	shrunk := func() bool { // the widest of those that may be, by one
		at := -1
		for i, c := range g.columns {
			if c.shrink > 0 && widths[i] > least(c) && (at < 0 || widths[i] > widths[at]) {
				at = i
			}
		}
		if at >= 0 {
			widths[at]--
		}
		return at >= 0
	}
	for total() > room {
		if shrunk() {
			continue
		}
		at := -1
		for i, c := range g.columns {
			if c.drop > 0 && widths[i] > 0 && (at < 0 || c.drop > g.columns[at].drop) {
				at = i
			}
		}
		if at < 0 {
			if least = func(column) int { return narrowest }; shrunk() {
				continue
			}
			break // what is left is cut
		}
		widths[at] = 0
		for i, c := range g.columns { // who gave room has some back
			if c.shrink > 0 && widths[i] > 0 {
				for _, r := range shown {
					widths[i] = max(widths[i], ansi.StringWidth(r.cells[i].text))
				}
			}
		}
	}
	return widths
}

// line is a row in so many columns of the terminal.
func (g *grid) line(r row, widths []int, room int, whole style) string {
	var b strings.Builder
	used := 0
	for i, c := range g.columns {
		if widths[i] == 0 || used >= room {
			continue
		}
		if used > 0 {
			b.WriteString(strings.Repeat(" ", gap))
			used += gap
		}
		width := min(widths[i], room-used)
		text := fill(r.cells[i].text, width, c.right)
		if whole == plain {
			text = r.cells[i].style.paint(text)
		}
		b.WriteString(text)
		used += width
	}
	if whole == reversed { // the whole line, so that it is seen without colors
		b.WriteString(strings.Repeat(" ", max(0, room-used)))
	}
	return whole.paint(b.String())
}

// titles is the line above, with a mark at what it is sorted by.
func (g *grid) titles(by int, reverse bool) row {
	r := row{cells: make([]cell, len(g.columns))}
	for i, c := range g.columns {
		title := c.title
		if i == by {
			mark := "v"
			if reverse {
				mark = "^"
			}
			if c.right {
				title = mark + title
			} else {
				title += mark
			}
		}
		r.cells[i] = cell{text: title}
	}
	return r
}
