package top

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/golden"
)

// TestFrames: what is shown follows from the frame and from what was chosen. The files have what a terminal shows.
func TestFrames(t *testing.T) {
	t.Parallel()
	f := watched(t).Frame()
	for _, size := range [...][2]int{{80, 24}, {40, 10}, {200, 50}} {
		var shown bytes.Buffer
		add := func(title string, ui UI) {
			ui.Interval = 2 * time.Second
			p := render(f, ui, size[0], size[1])
			fitsIn(t, p, size[0], size[1])
			text := ansi.Strip(strings.Join(p.lines, "\n"))
			fmt.Fprintf(&shown, "=== %s\n%s\n", title, regexp.MustCompile(`(?m) +$`).ReplaceAllString(text, ""))
		}
		for tab := range tabs {
			add(tab.String(), UI{Tab: tab})
		}
		requests := UI{Tab: Requests, OnlyFailed: true, Selected: [tabs]string{Requests: f.Requests[6].ID}}
		requests.Sort[Requests] = 7
		add("failed requests by price, one chosen", requests)
		add("filtered, typing, paused", UI{Tab: Accounts, Typing: true, Paused: true, Filter: [tabs]string{Accounts: "日本"}})
		add("filtered to nothing", UI{Tab: Routes, Filter: [tabs]string{Routes: "x\x1b"}})
		add("help", UI{Help: true})
		add("open", UI{Detail: Detail{Title: "Route large", Text: f.describe(Routes, "large")}})
		add("gone", UI{Gone: errors.New("no gateway is running\x1b[2J"), GoneSince: begun})
		golden.Equal(t, filepath.Join("testdata", fmt.Sprintf("%dx%d.txt", size[0], size[1])), shown.Bytes())
	}
	var report bytes.Buffer
	require.NoError(t, f.Limited().Write(&report, 100))
	golden.Equal(t, filepath.Join("testdata", "once.txt"), report.Bytes())
}

// onlyStyles are the escapes that the view itself makes.
var onlyStyles = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// fitsIn: no line is too wide, there are not too many, and nothing in them moves the cursor or turns text around.
func fitsIn(t require.TestingT, p page, width, height int) {
	require.LessOrEqual(t, len(p.lines), max(height, 1))
	for _, line := range p.lines {
		require.LessOrEqual(t, ansi.StringWidth(line), width, "%q", line)
		for _, r := range onlyStyles.ReplaceAllString(line, "") {
			require.False(t, r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 ||
				r == 0x200b || r == 0xfeff, "%q in %q", r, line)
		}
	}
}

// Nothing that anyone can send appears unescaped, in a terminal of any size.
func TestAnyTextInAnyTerminal(t *testing.T) {
	t.Parallel()
	one := readAt(t, begun, 1000, 0)
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string) string {
			return rapid.OneOf(rapid.String(), rapid.SampledFrom(hostile),
				rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, label)
		}
		s := *one
		s.Status.Reason, s.Status.Version = text("reason"), text("version")
		s.Status.Ready = rapid.Bool().Draw(t, "ready")
		s.Status.Routes = []admin.Route{{Name: text("route"), Model: text("model"), Provider: text("provider"),
			State: text("state"), Reason: text("why"), LastFailure: &admin.RouteFailure{Text: text("failure")}}}
		s.Status.Providers = []admin.Provider{{Name: text("p"), Problem: text("problem"), State: text("s")}}
		s.Recent.Requests = []admin.EndedRequest{{N: 1, ID: text("id"), Time: begun, Account: text("account"),
			AccountID: text("account id"), Last4: text("last4"), Route: text("of"), Reason: text("r"), Endpoint: text("e")}}
		s.Plugins = []admin.Plugin{{Name: text("plugin"), Providers: []admin.PluginProvider{{Name: text("name"),
			State: text("ps"), LastCrash: &admin.Crash{Why: text("crash")}}}}}
		var w Watch
		w.Take(&s)
		f := w.Frame()
		width, height := rapid.IntRange(0, 210).Draw(t, "width"), rapid.IntRange(0, 60).Draw(t, "height")
		ui := UI{Tab: Tab(rapid.IntRange(0, int(tabs)-1).Draw(t, "tab")), Note: text("note"),
			Typing: rapid.Bool().Draw(t, "typing")}
		ui.Filter[ui.Tab] = rapid.SampledFrom([]string{"", "a", "\x1b"}).Draw(t, "filter")
		if rapid.Bool().Draw(t, "open") {
			ui.Detail = Detail{Title: text("title"), Text: text("text"), top: rapid.IntRange(-3, 99).Draw(t, "top")}
		}
		if rapid.Bool().Draw(t, "gone") {
			ui.Gone = errors.New(text("error"))
		}
		fitsIn(t, render(f, ui, width, height), width, height)
		fitsIn(t, render(nil, ui, width, height), width, max(height, 60))
		var report bytes.Buffer
		require.NoError(t, f.Write(&report, max(width, 40)))
		require.NotContains(t, report.String(), "\x1b")
	})
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 12: "12", 9999: "9999", 12_345: "12.3k", 4_500_000: "4.5M",
		7e12: "7000.0G", 999_499: "999.5k"} {
		require.Equal(t, want, amount(v))
	}
	for v, want := range map[float64]string{0: "0", 0.01: "0.1", 3.14: "3.1", 9.96: "10", 1234.5: "1235"} {
		require.Equal(t, want, rate(&v))
	}
	for v, want := range map[float64]string{0.0004: "0.4ms", 0.05: "50ms", 1.25: "1.2s", 99: "99.0s", 125: "2m05s"} {
		require.Equal(t, want, seconds(&v))
	}
	for v, want := range map[float64]string{0: "0", 5: "0.000005", 760: "0.0008", 1_335_000: "1.33",
		4_000_000_000: "4,000",
		-2e6:          "-2.00"} {
		require.Equal(t, want, credits(&v))
	}
	for d, want := range map[time.Duration]string{59 * time.Second: "59s", time.Hour: "1h00m", 49 * time.Hour: "2d1h",
		200 * 24 * time.Hour: "200d"} {
		require.Equal(t, want, span(d))
	}
	for v, want := range map[float64]string{0: "0", 0.0001: "0.1%", 0.5: "50%"} {
		require.Equal(t, want, percent(&v))
	}
	require.Equal(t, none, rate(nil)+seconds(nil)[1:])
}
