package top

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Source is where a view has what it shows from.
type Source interface {
	// Read asks the gateway how it does: for what has ended after a request's number, and for some accounts by their ids.
	Read(ctx context.Context, after uint64, accounts []string) (*Snapshot, error)
	// Describe is all that the gateway knows of what a row of a tab is about, as text; "" where it is asked for nothing.
	Describe(ctx context.Context, t Tab, key string) (string, error)
}

const (
	// AnswerTimeout is how long the gateway has to answer before it is said to be gone.
	AnswerTimeout = 5 * time.Second
	// Shortest and Longest are how often the gateway is asked.
	Shortest = 500 * time.Millisecond
	Longest  = time.Minute
)

// Model is a view with all that it knows. Its methods are called by one goroutine.
type Model struct {
	ctx           context.Context
	source        Source
	now           func() time.Time
	watch         Watch
	frame         *Frame
	ui            UI
	width, height int
	page          page
	asking        bool
	polls         int // counts the ticks that are wanted: an older one has no effect
}

// New is a view of a gateway that is asked every interval.
func New(ctx context.Context, source Source, interval time.Duration, now func() time.Time) *Model {
	m := &Model{ctx: ctx, source: source, now: now, width: 80, height: 24}
	m.ui.Interval = interval
	return m
}

type (
	// tick says that it is time to ask.
	tick struct{ poll int }
	// answer is what came of asking.
	answer struct {
		snapshot *Snapshot
		err      error
		at       time.Time
	}
	// described is what came of opening a row.
	described struct {
		detail Detail
		err    error
	}
)

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd { return m.ask() }

// View implements tea.Model.
func (m *Model) View() tea.View {
	v := tea.NewView(strings.Join(m.page.lines, "\n"))
	v.AltScreen = true
	return v
}

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.handle(msg)
	m.page = render(m.frame, m.ui, m.width, m.height)
	m.ui = m.page.ui
	return m, cmd
}

func (m *Model) handle(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tick:
		if msg.poll == m.polls && !m.ui.Paused {
			return m.ask()
		}
	case answer:
		m.asking = false
		m.take(msg)
		return m.wait()
	case described:
		m.ui.Note = ""
		if msg.err != nil {
			m.ui.Note = msg.err.Error()
			return nil
		}
		m.ui.Detail = msg.detail
	case tea.KeyPressMsg:
		return m.press(msg.String(), msg.Text)
	}
	return nil
}

// ask asks the gateway, unless it is being asked.
func (m *Model) ask() tea.Cmd {
	if m.asking {
		return nil
	}
	m.asking = true
	after, accounts := m.watch.Last(), []string(nil)
	if m.ui.Tab == Accounts && m.frame != nil {
		accounts = m.frame.Spenders()
	}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, AnswerTimeout)
		defer cancel()
		s, err := m.source.Read(ctx, after, accounts)
		return answer{s, err, m.now()}
	}
}

// wait has the gateway asked when the interval is over.
func (m *Model) wait() tea.Cmd {
	m.polls++
	poll := m.polls
	return tea.Tick(m.ui.Interval, func(time.Time) tea.Msg { return tick{poll} })
}

func (m *Model) take(a answer) {
	if a.err != nil {
		if m.ui.Gone == nil {
			m.ui.GoneSince = a.at
		}
		m.ui.Gone = a.err
		return
	}
	m.ui.Gone = nil
	m.watch.Take(a.snapshot)
	m.frame = m.watch.Frame()
}

// press does what a key says; text is what it types.
func (m *Model) press(key, text string) tea.Cmd {
	ui := &m.ui
	if key == "ctrl+c" {
		return tea.Quit
	}
	if ui.Typing {
		m.typeFilter(key, text)
		return nil
	}
	ui.Note = ""
	if ui.Help && key != "q" {
		ui.Help = false
		return nil
	}
	if ui.Detail.Title != "" {
		return m.pressOpen(key)
	}
	switch key {
	case "q":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	case "ctrl+l":
		return tea.ClearScreen
	case "?", "h", "f1":
		ui.Help = true
	case "1", "2", "3", "4", "5":
		return m.show(Tab(key[0] - '1'))
	case "tab", "right", "l":
		return m.show((ui.Tab + 1) % tabs)
	case "shift+tab", "left":
		return m.show((ui.Tab + tabs - 1) % tabs)
	case "/":
		ui.Typing = true
	case "s":
		m.sortByNext()
	case "r":
		ui.Reverse[ui.Tab] = !ui.Reverse[ui.Tab]
	case "e":
		ui.OnlyFailed = !ui.OnlyFailed
		return m.show(Requests)
	case "p", "space":
		ui.Paused = !ui.Paused
		if !ui.Paused {
			return m.ask()
		}
	case "+", "=":
		ui.Interval = max(Shortest, ui.Interval/2)
		ui.Note = fmt.Sprintf("asked every %s", ui.Interval)
		return m.wait()
	case "-":
		ui.Interval = min(Longest, ui.Interval*2)
		ui.Note = fmt.Sprintf("asked every %s", ui.Interval)
		return m.wait()
	case "esc":
		switch t := ui.Tab; {
		case ui.Selected[t] != "":
			ui.Selected[t] = ""
		default:
			ui.Filter[t] = ""
			ui.OnlyFailed = false
		}
	case "enter":
		return m.open()
	default:
		m.move(key)
	}
	return nil
}

func (m *Model) typeFilter(key, text string) {
	ui := &m.ui
	filter := &ui.Filter[ui.Tab]
	switch {
	case key == "enter":
		ui.Typing = false
	case key == "esc":
		ui.Typing, *filter = false, ""
	case key == "backspace":
		if runes := []rune(*filter); len(runes) > 0 {
			*filter = string(runes[:len(runes)-1])
		}
	case key == "ctrl+u":
		*filter = ""
	case text != "" && len(*filter)+len(text) <= 64:
		*filter += text
	}
}

// pressOpen is press where something is open.
func (m *Model) pressOpen(key string) tea.Cmd {
	d := &m.ui.Detail
	switch key {
	case "q":
		return tea.Quit
	case "esc", "enter", "backspace", "left", "h":
		*d = Detail{}
	default:
		d.top = moved(key, d.top, m.page.body, len(d.Text)) // what is too far, render takes back
	}
	return nil
}

// show shows a tab, and asks for what that needs.
func (m *Model) show(t Tab) tea.Cmd {
	m.ui.Tab = t
	if t == Accounts && !m.ui.Paused {
		return m.ask()
	}
	return nil
}

func (m *Model) sortByNext() {
	if m.frame == nil {
		return
	}
	by := &m.ui.Sort[m.ui.Tab]
	*by = (*by + 1) % (len(m.frame.grid(m.ui.Tab, &m.ui).columns) + 1)
}

// moved is where a key leads from a line, of those that there are.
func moved(key string, at, page, of int) int {
	switch key {
	case "up", "k":
		at--
	case "down", "j":
		at++
	case "pgup", "ctrl+b":
		at -= page
	case "pgdown", "ctrl+f":
		at += page
	case "home", "g":
		at = 0
	case "end", "G":
		at = of - 1
	default:
		return at
	}
	return max(0, min(at, of-1))
}

// move chooses another row.
func (m *Model) move(key string) {
	if m.frame == nil {
		return
	}
	ui := &m.ui
	g := m.frame.rowsOf(ui)
	at := g.selected(ui.Selected[ui.Tab])
	to := moved(key, at, m.page.body, len(g.rows))
	switch {
	case len(g.rows) == 0 || to == at:
	case at < 0 && (key == "up" || key == "k"):
	default:
		ui.Selected[ui.Tab] = g.rows[max(to, 0)].key
	}
}

// open shows all that is known of the chosen row, the first one where none is.
func (m *Model) open() tea.Cmd {
	if m.frame == nil {
		return nil
	}
	ui := &m.ui
	g := m.frame.rowsOf(ui)
	if len(g.rows) == 0 {
		return nil
	}
	chosen := g.rows[max(0, g.selected(ui.Selected[ui.Tab]))]
	ui.Selected[ui.Tab] = chosen.key
	t, key := ui.Tab, chosen.key
	title := strings.TrimSuffix(t.String(), "s") + " " + key
	if known := m.frame.describe(t, key); known != "" {
		ui.Detail = Detail{Title: title, Text: known}
		return nil
	}
	ui.Note = "asking the gateway ..."
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, AnswerTimeout)
		defer cancel()
		text, err := m.source.Describe(ctx, t, key)
		return described{Detail{Title: title, Text: text}, err}
	}
}
