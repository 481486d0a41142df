package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/fareway/fareway/modules/internal/human"
)

// UI is what somebody who looks has chosen.
type UI struct {
	Tab        Tab
	Sort       [tabs]int // a column from 1; 0: as it comes
	Reverse    [tabs]bool
	Filter     [tabs]string
	Typing     bool // a filter
	OnlyFailed bool // requests
	Selected   [tabs]string
	top        [tabs]int // the first row that is shown
	Paused     bool
	Help       bool
	Detail     Detail // its title is "" where nothing is open
	Note       string
	Gone       error // why the gateway does not answer; nil: it does
	GoneSince  time.Time
	Interval   time.Duration
}

// Detail is what was opened.
type Detail struct {
	Title string
	Text  string
	top   int
}

// smallest is the smallest terminal that something can be read on.
const (
	smallestWidth  = 20
	smallestHeight = 6
)

// page is what is shown: lines of at most so many columns, how many rows fit, and what was chosen as far as that is
// still there.
type page struct {
	lines []string
	body  int
	ui    UI
}

// render is what a terminal of a size shows. It is made of the frame and of what was chosen, and of nothing else; frame
// is nil while nothing was read.
func render(f *Frame, chosen UI, width, height int) page {
	p := page{body: 1, ui: chosen}
	if width < smallestWidth || height < smallestHeight {
		p.lines = []string{cut(fmt.Sprintf("%dx%d is too small", width, height), width)}
		return p
	}
	ui := &p.ui
	if f == nil {
		p.lines = ui.waiting(width)
		return p
	}
	p.lines = f.head(ui, width, height)
	p.body = height - len(p.lines) - 1
	switch {
	case ui.Help:
		p.lines = append(p.lines, window(helpText, 0, p.body, width)...)
	case ui.Detail.Title != "":
		p.body--
		p.lines = append(p.lines, bold.paint(cut(human.Printable(ui.Detail.Title), width)))
		text := wrap(human.PrintableLines(ui.Detail.Text), width)
		ui.Detail.top = max(0, min(ui.Detail.top, len(text)-p.body))
		p.lines = append(p.lines, window(text, ui.Detail.top, p.body, width)...)
	default:
		p.body--
		p.lines = append(p.lines, f.table(ui, width, p.body)...)
	}
	for len(p.lines) < height-1 {
		p.lines = append(p.lines, "")
	}
	p.lines = append(p.lines[:height-1], f.foot(ui, width))
	return p
}

// waiting is shown until the gateway has answered for the first time.
func (ui *UI) waiting(width int) []string {
	if ui.Gone == nil {
		return []string{cut("Asking the gateway ...", width)}
	}
	return append(wrap("The gateway does not answer: "+human.Printable(ui.Gone.Error()), width), "",
		cut("It is asked again every "+ui.Interval.String()+". q ends this.", width))
}

// window is so many of the lines from one on.
func window(lines []string, from, most, width int) []string {
	from = min(from, len(lines))
	lines = slices.Clone(lines[from:min(len(lines), from+max(most, 0))])
	for i := range lines {
		lines[i] = cut(lines[i], width)
	}
	return lines
}

// wrap breaks lines where they are too long.
func wrap(text string, width int) []string {
	return strings.Split(strings.TrimRight(ansi.Wrap(text, width, " "), "\n"), "\n")
}

// segments joins as many texts as fit, the first ones.
func segments(width int, between string, texts ...string) string {
	line, used := "", 0
	for _, text := range texts {
		if text == "" {
			continue
		}
		more := ansi.StringWidth(text)
		if used > 0 {
			more += len(between)
		}
		if used > 0 && used+more > width {
			break
		}
		if used > 0 {
			line += between
		}
		line, used = line+text, used+more
	}
	return cut(line, width)
}

// head is the lines above the table: as many as leave room for it.
func (f *Frame) head(ui *UI, width, height int) []string {
	lines := []string{f.title(ui, width)}
	r, g := &f.Rates, &f.Gateway
	failing := plain
	if r.Failed != nil && *r.Failed > 0 {
		failing = bad
	}
	margin := plain
	if m := r.Margin(); m != nil && *m < 0 {
		margin = bad
	}
	lost := plain
	if r.Lost != nil && *r.Lost > 0 {
		lost = bad
	}
	requests := segments(width, "  ", "requests "+bold.paint(rate(r.Requests))+"/s",
		"failed "+failing.paint(rate(r.Failed))+"/s", "running "+bold.paint(amount(r.Running)),
		"refused "+rate(r.Refused)+"/s", "connections "+amount(r.Connections))
	times := segments(width, "  ", "first token p50 "+seconds(r.FirstTokenP50)+" p95 "+seconds(r.FirstTokenP95),
		"settling p95 "+seconds(r.LedgerP95), "memory "+size(g.Memory), "cpu "+percent(g.CPU),
		"files "+amount(g.Files))
	money := segments(width, "  ", "credits/min: charged "+bold.paint(credits(r.Charged)), "margin "+
		margin.paint(credits(r.Margin())), "lost "+lost.paint(credits(r.Lost)), "| held now "+credits(&r.Held),
		"cost "+credits(r.Cost)+"/min")
	lines = append(lines, requests)
	if height >= 12 {
		lines = append(lines, times, money)
	}
	if height >= 14 || len(f.Problems) > 0 && f.Problems[0].Severe {
		lines = append(lines, f.problemLine(width))
	}
	return append(lines, f.tabLine(ui, width))
}

func (f *Frame) title(ui *UI, width int) string {
	state := good.paint("ready")
	switch {
	case ui.Gone != nil:
		state = bad.paint("GONE since " + clock(ui.GoneSince, ui.GoneSince))
	case !f.Gateway.Ready:
		state = bad.paint("NOT READY")
	}
	right := f.Time.UTC().Format(time.TimeOnly) + " UTC"
	if ui.Paused {
		right = "PAUSED " + right
	}
	nodes := ""
	if f.Gateway.Nodes > 1 {
		nodes = fmt.Sprintf("1 of %d nodes", f.Gateway.Nodes)
	}
	up := "up " + span(f.Time.Sub(f.Gateway.Since))
	if f.Gateway.Restarted {
		up = warning.paint("RESTARTED, " + up)
	}
	left := segments(max(width-len(right)-1, 10), "  ", bold.paint("fareway"), state, up, nodes,
		"pid "+fmt.Sprint(f.Gateway.PID), human.Printable(f.Gateway.Version))
	room := width - ansi.StringWidth(left) - len(right)
	if room < 1 {
		return left
	}
	return left + strings.Repeat(" ", room) + right
}

func (f *Frame) problemLine(width int) string {
	if len(f.Problems) == 0 {
		return dim.paint("no problems")
	}
	p, s := f.Problems[0], warning
	if p.Severe {
		s = bad
	}
	text := p.About + ": " + p.Text
	if more := len(f.Problems) - 1; more > 0 {
		end := fmt.Sprintf(" (+%d: 5)", more)
		return s.paint(cut("! "+human.Printable(text), width-len(end)) + end)
	}
	return s.paint(cut("! "+human.Printable(text), width))
}

func (f *Frame) tabLine(ui *UI, width int) string {
	long, short := make([]string, tabs), make([]string, tabs)
	for t := range tabs {
		count := ""
		if t == Problems && len(f.Problems) > 0 {
			count = fmt.Sprintf(" %d", len(f.Problems))
		}
		long[t] = fmt.Sprintf(" %d %s%s ", t+1, t, count)
		short[t] = fmt.Sprintf(" %d %.4s ", t+1, t)
		if t == ui.Tab {
			long[t], short[t] = reversed.paint(long[t]), reversed.paint(short[t])
		}
	}
	line := strings.Join(long, "")
	if ansi.StringWidth(line) > width {
		line = strings.Join(short, "")
	}
	return cut(line, width)
}

// rowsOf are those of a tab as they were chosen.
func (f *Frame) rowsOf(ui *UI) grid {
	g := f.grid(ui.Tab, ui)
	g.filtered(ui.Filter[ui.Tab])
	g.sorted(ui.Sort[ui.Tab]-1, ui.Reverse[ui.Tab])
	return g
}

// selected is where the chosen row is by now, -1 where there is none.
func (g *grid) selected(key string) int {
	if key == "" {
		return -1
	}
	return slices.IndexFunc(g.rows, func(r row) bool { return r.key == key })
}

func (f *Frame) table(ui *UI, width, body int) []string {
	g := f.rowsOf(ui)
	at := g.selected(ui.Selected[ui.Tab])
	if at < 0 {
		ui.Selected[ui.Tab], ui.top[ui.Tab] = "", 0
	}
	top := &ui.top[ui.Tab]
	if at >= 0 {
		*top = max(min(*top, at), at-body+1)
	}
	*top = max(0, min(*top, len(g.rows)-body))
	shown := g.rows[*top:min(len(g.rows), *top+body)]
	by, reverse := ui.Sort[ui.Tab]-1, ui.Reverse[ui.Tab]
	titles := g.titles(by, reverse)
	widths := g.widths(width, append([]row{titles}, shown...))
	lines := []string{g.line(titles, widths, width, bold)}
	for i, r := range shown {
		whole := plain
		if *top+i == at {
			whole = reversed
		}
		lines = append(lines, strings.TrimRight(g.line(r, widths, width, whole), " "))
	}
	if len(g.rows) == 0 {
		lines = append(lines, dim.paint(cut(g.empty, width)))
	}
	return lines
}

// foot is the last line: what is typed, what there is to say, or which keys there are.
func (f *Frame) foot(ui *UI, width int) string {
	switch {
	case ui.Typing:
		return cut("/"+human.Printable(ui.Filter[ui.Tab])+"_  Enter keeps it, Esc shows all", width)
	case ui.Gone != nil:
		return bad.paint(cut("The gateway does not answer, and is asked again: "+human.Printable(ui.Gone.Error()), width))
	case ui.Note != "":
		return warning.paint(cut(human.Printable(ui.Note), width))
	case ui.Help:
		return dim.paint(cut("any key goes back", width))
	case ui.Detail.Title != "":
		return dim.paint(segments(width, "  ", "Esc back", "arrows scroll", "q quit"))
	}
	chosen := ""
	if text := ui.Filter[ui.Tab]; text != "" {
		chosen = "[only \"" + human.Printable(text) + "\"]"
	}
	if ui.OnlyFailed && ui.Tab == Requests {
		chosen += "[only failed]"
	}
	if ui.Tab == Accounts {
		chosen += "[last " + span(f.Time.Sub(f.AccountsSince)) + "]"
	}
	if f.Missed > 0 && (ui.Tab == Accounts || ui.Tab == Requests) {
		chosen += fmt.Sprintf("[%s of %s requests seen]", amount(float64(f.Seen)), amount(float64(f.Seen+f.Missed)))
	}
	return dim.paint(segments(width, "  ", chosen, "? help", "q quit", "Tab next", "/ filter", "s sort", "p pause",
		"Enter open", "r reverse", "e failed only"))
}

var helpText = strings.Split(`Keys
  1-5, Tab, Shift-Tab, Left, Right   another tab
  Up, Down, PgUp, PgDn, Home, End    choose a row (also k, j, g, G)
  Enter                              open it: a request with its attempts and
                                     what it was charged, an account, a route
  Esc                                back; forget the choice, then the filter
  /                                  only rows with a text in them
  s, r                               sort by the next column; turn it round
  e                                  of requests, only those that failed
  p, Space                           stop here for a while, and go on
  + -                                ask more often, or less
  q, Ctrl-C                          quit
What it says
  Rates are of the last 10 seconds, credits and errors of the last minute,
  times of the last minute or, where nothing came, of the last five.
  failed: 5xx. refused: 4xx. lost: what upstreams reported beyond the hold.
  Accounts are those that used the gateway in the last five minutes. This is
  one gateway: of several nodes, each has its own.`, "\n")
