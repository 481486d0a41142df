package top

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
)

// told is a source that says what a test wants.
type told struct {
	snapshot *Snapshot
	err      error
	after    uint64
	accounts []string
}

func (s *told) Read(_ context.Context, after uint64, accounts []string) (*Snapshot, error) {
	s.after, s.accounts = after, accounts
	return s.snapshot, s.err
}

func (s *told) Describe(_ context.Context, t Tab, key string) (string, error) {
	return "all of " + t.String() + " " + key + "\x1b[2J", s.err
}

// viewing is a view that a test has in its hands.
type viewing struct {
	*Model
	t      *testing.T
	source *told
	now    time.Time
}

func newViewing(t *testing.T) *viewing {
	v := &viewing{t: t, source: new(told), now: begun}
	v.Model = New(t.Context(), v.source, 2*time.Second, func() time.Time { return v.now })
	v.send(tea.WindowSizeMsg{Width: 100, Height: 30})
	return v
}

// send hands a message over, and what came of its command unless that is a wait.
func (v *viewing) send(msg tea.Msg) {
	_, cmd := v.Update(msg)
	if _, isAnswer := msg.(answer); isAnswer || cmd == nil {
		return // the next question is the test's
	}
	v.send(cmd())
}

// poll asks the gateway.
func (v *viewing) poll(s *Snapshot, err error) {
	v.source.snapshot, v.source.err = s, err
	if s != nil {
		v.now = s.At
	}
	v.send(tick{v.polls})
}

func (v *viewing) keys(keys ...string) {
	for _, key := range keys {
		k := tea.Key{Text: key}
		switch key {
		case "enter":
			k = tea.Key{Code: tea.KeyEnter}
		case "esc":
			k = tea.Key{Code: tea.KeyEscape}
		case "down":
			k = tea.Key{Code: tea.KeyDown}
		case "up":
			k = tea.Key{Code: tea.KeyUp}
		case "end":
			k = tea.Key{Code: tea.KeyEnd}
		case "tab":
			k = tea.Key{Code: tea.KeyTab}
		default:
			k.Code = []rune(key)[0]
		}
		_, cmd := v.Update(tea.KeyPressMsg(k))
		if cmd != nil && key != "+" && key != "-" {
			v.send(cmd())
		}
	}
}

func (v *viewing) shown() string { return ansi.Strip(v.View().Content) }

// TestGatewayGoesAway: the view says so, keeps what it knows, and goes on when the gateway is back; a restart of its
// counters is no burst of negative or vast rates.
func TestGatewayGoesAway(t *testing.T) {
	t.Parallel()
	v := newViewing(t)
	require.Contains(t, v.shown(), "Asking the gateway")
	v.source.err = errors.New("no gateway is running")
	v.send(v.Init()())
	require.Contains(t, v.shown(), "The gateway does not answer: no gateway is running")
	v.poll(readAt(t, begun, 1000, 0), nil)
	require.Contains(t, v.shown(), "requests -/s", "one reading is no rate")
	v.poll(readAt(t, begun.Add(2*time.Second), 1100, 1000), nil)
	require.EqualValues(t, 1000, v.source.after, "what was seen is not sent again")
	require.Contains(t, v.shown(), "requests 169/s")
	v.poll(nil, errors.New("connection refused"))
	require.Contains(t, v.shown(), "GONE since 02:00:02")
	require.Contains(t, v.shown(), "asked again: connection refused")
	require.Contains(t, v.shown(), "requests 169/s", "what was known last stays")

	restarted := readAt(t, begun.Add(10*time.Second), 50, 0)
	restarted.Recent.Since = begun.Add(6 * time.Second)
	v.poll(restarted, nil)
	require.Contains(t, v.shown(), "RESTARTED, up 4s")
	require.Contains(t, v.shown(), "requests -/s")
	again := readAt(t, begun.Add(12*time.Second), 70, 50)
	again.Recent.Since = restarted.Recent.Since
	v.poll(again, nil)
	require.Contains(t, v.shown(), "requests 34/s")
	require.NotContains(t, v.shown(), "GONE")
}

func TestKeys(t *testing.T) {
	t.Parallel()
	v := newViewing(t)
	v.poll(readAt(t, begun, 1000, 0), nil)
	v.poll(readAt(t, begun.Add(2*time.Second), 1010, 1000), nil)

	v.keys("2")
	require.Equal(t, Accounts, v.ui.Tab)
	require.Len(t, v.source.accounts, len(hostile), "whose balances are shown are asked for")
	require.Contains(t, v.shown(), "12,345")
	v.poll(readAt(t, begun.Add(3*time.Second), 1011, 1010), nil)

	v.keys("3", "down", "down")
	second := v.frame.Requests[1].ID
	require.Equal(t, second, v.ui.Selected[Requests])
	v.poll(readAt(t, begun.Add(4*time.Second), 1016, 1011), nil)
	require.Equal(t, second, v.ui.Selected[Requests], "the choice stays with its row")
	require.Equal(t, second, v.frame.Requests[6].ID)
	v.keys("enter")
	require.Contains(t, v.shown(), "all of Requests "+second+`\x1b[2J`)
	v.keys("esc")
	require.NotContains(t, v.shown(), "all of")

	v.keys("/", "l", "a", "r", "g", "enter")
	require.Equal(t, "larg", v.ui.Filter[Requests])
	require.Contains(t, v.shown(), `[only "larg"]`)
	require.NotRegexp(t, `\d 200 `, v.shown())
	v.keys("esc", "esc")
	require.Empty(t, v.ui.Filter[Requests])
	v.keys("e")
	require.Contains(t, v.shown(), "[only failed]")
	v.keys("e", "s", "s", "r")
	require.Contains(t, v.shown(), "ST^")

	v.keys("?")
	require.Contains(t, v.shown(), "Keys")
	v.keys("x", "1", "down", "end", "enter")
	require.Contains(t, v.shown(), "3 of 4 attempts failed")
	v.keys("esc", "p")
	require.Contains(t, v.shown(), "PAUSED")
	v.source.snapshot = readAt(t, begun.Add(9*time.Second), 1100, 1016)
	v.send(tick{v.polls})
	require.NotContains(t, v.shown(), "02:00:09", "nothing is asked for")
	v.keys("p")
	require.Contains(t, v.shown(), "02:00:09")
	v.keys("+", "+", "+", "+")
	require.Equal(t, Shortest, v.ui.Interval)
	v.keys("-")
	require.Equal(t, 2*Shortest, v.ui.Interval)
	v.keys("tab", "tab")
	require.Equal(t, Requests, v.ui.Tab)

	_, cmd := v.Update(tea.KeyPressMsg(tea.Key{Text: "q", Code: 'q'}))
	require.IsType(t, tea.QuitMsg{}, cmd())
	v.send(tea.WindowSizeMsg{Width: 10, Height: 3})
	require.Equal(t, "10x3 is t~", v.shown())
}

// TestWhoSpends: of more requests than the gateway keeps, it is said how many were seen.
func TestWhoSpends(t *testing.T) {
	t.Parallel()
	var w Watch
	w.Take(readAt(t, begun, 1000, 0))
	f := w.Frame()
	require.Zero(t, f.Missed, "of what was before, nobody wants to know how much it was")
	require.Equal(t, begun.Add(-59*time.Second), f.AccountsSince, "the oldest that went well")
	w.Take(readAt(t, begun.Add(2*time.Second), 1200, w.Last()))
	f = w.Frame()
	require.EqualValues(t, 140, f.Missed)
	require.EqualValues(t, 120, f.Seen)
	var sum int64
	for _, r := range f.Requests {
		if r.AccountID != "" {
			sum += r.Microcents
		}
	}
	for i, a := range f.Accounts {
		sum -= a.Microcents
		if i > 0 {
			require.LessOrEqual(t, a.Microcents, f.Accounts[i-1].Microcents)
		}
	}
	require.Zero(t, sum)
	require.Equal(t, []string{"acct_4", "acct_3"}, f.Spenders()[:2])
	require.True(t, strings.HasPrefix(render(f, UI{Tab: Accounts}, 100, 30).lines[29], "\x1b[2m[last 1m01s][120 of 260"),
		render(f, UI{Tab: Accounts}, 100, 30).lines[29])
}

// TestLongWatch: what is cut off does not count as looked at, what was missed long ago does not count as missed, and
// replies that have broken off count as failed.
func TestLongWatch(t *testing.T) {
	t.Parallel()
	w := new(Watch)
	w.Take(readAt(t, begun, 60, 0))
	w.Take(readAt(t, begun.Add(2*time.Second), 200, w.Last()))
	require.EqualValues(t, 80, w.Frame().Missed)
	later := readAt(t, begun.Add(3*time.Minute), 220, w.Last())
	r := later.Recent.Requests[0]
	later.Recent.Requests = nil
	for i := range keptEnded + 1000 { // ten a millisecond
		one := r
		one.N, one.Time = uint64(21_300-i), later.At.Add(-time.Duration(i)*100*time.Microsecond)
		one.Status, one.Aborted = 200, false
		later.Recent.Requests = append(later.Recent.Requests, one)
	}
	later.Recent.Last = 21_300
	later.Recent.Requests[5].Aborted = true
	w.Take(later)
	f := w.Frame()
	require.Equal(t, later.At.Add(-(keptEnded-1)*100*time.Microsecond), f.AccountsSince, "the oldest that is left")
	require.EqualValues(t, keptEnded, f.Seen)
	require.Equal(t, 1, w.brokenOff(begun.Add(time.Minute)))
	require.InDelta(t, 1.0/178, *f.Rates.Failed-*per(w.readings[2], w.readings[1],
		func(r *reading) float64 { return r.failed }), 1e-9)
	require.Len(t, f.requestGrid(false).rows, shownRequests)
	w.Take(readAt(t, begun.Add(6*time.Minute), 21_310, w.Last()))
	require.Zero(t, w.Frame().Missed, "it was longer ago")
}
