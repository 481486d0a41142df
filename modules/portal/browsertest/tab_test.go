//go:build browser

package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// tab is a window of a browser of its own: with no cookies of another one.
type tab struct {
	testing.TB
	*site
	ctx     context.Context
	profile cdp.BrowserContextID

	mu     sync.Mutex
	faults []string // what the console says is wrong
}

// newTab opens one, in which nothing may be wrong until the test ends: no script fails, and nothing is kept back by the
// content security policy.
func (s *site) newTab(t testing.TB) *tab {
	t.Helper()
	b := s.newLooseTab(t)
	t.Cleanup(func() { require.Empty(t, b.takeFaults(), "the console has errors") })
	return b
}

// newLooseTab is newTab where something goes wrong.
func (s *site) newLooseTab(t testing.TB) *tab {
	t.Helper()
	root, err := chromium()
	require.NoError(t, err, "Chromium does not start: make browser installs it")
	ctx, cancel := context.WithTimeout(cdp.WithExecutor(root, chromedp.FromContext(root).Browser), patience)
	defer cancel()
	profile, err := target.CreateBrowserContext().WithDisposeOnDetach(true).Do(ctx)
	require.NoError(t, err)
	return s.openWindow(t, root, profile)
}

// another is a second window of the same browser.
func (b *tab) another() *tab {
	b.Helper()
	return b.openWindow(b.TB, b.ctx, b.profile)
}

// openWindow opens a window of a profile. It is one of its own: Chromium opens no tab where there is no window.
func (s *site) openWindow(t testing.TB, of context.Context, profile cdp.BrowserContextID) *tab {
	t.Helper()
	within, cancel := context.WithTimeout(cdp.WithExecutor(of, chromedp.FromContext(of).Browser), patience)
	defer cancel()
	id, err := target.CreateTarget("about:blank").WithBrowserContextID(profile).WithNewWindow(true).Do(within)
	require.NoError(t, err)
	ctx, end := chromedp.NewContext(of, chromedp.WithTargetID(id))
	t.Cleanup(end)
	require.NoError(t, chromedp.Run(ctx)) // it attaches, for as long as the context lasts
	b := &tab{TB: t, site: s, ctx: ctx, profile: profile}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.fault("exception: " + e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError {
				b.fault(fmt.Sprintf("console.error: %s", e.Args[0].Value))
			}
		case *log.EventEntryAdded:
			// That an answer is a refusal stands there, too, and is no fault.
			if e.Entry.Level == log.LevelError && e.Entry.Source != log.SourceNetwork {
				b.fault(string(e.Entry.Source) + ": " + e.Entry.Text)
			}
		}
	})
	b.run(log.Enable())
	return b
}

func (b *tab) fault(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, text)
}

func (b *tab) takeFaults() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.faults
	b.faults = nil
	return list
}

// within is for what is to be done now.
func (b *tab) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.ctx, patience)
}

func (b *tab) run(actions ...chromedp.Action) {
	b.Helper()
	ctx, cancel := b.within()
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		require.NoError(b, err, "%s", b.where())
	}
}

// where is what the window shows, for who reads of a failure.
func (b *tab) where() string {
	ctx, cancel := b.within()
	defer cancel()
	var text string
	_ = chromedp.Run(ctx, chromedp.Evaluate(`location.href + "\n" + document.body.innerText`, &text))
	return text
}

// load does what loads a page, and is the status of its answer.
func (b *tab) load(action chromedp.Action) int {
	b.Helper()
	ctx, cancel := b.within()
	defer cancel()
	response, err := chromedp.RunResponse(ctx, action)
	if err != nil {
		require.NoError(b, err, "%s", b.where())
	}
	return int(response.Status)
}

// open goes to a page of the site, or to another address.
func (b *tab) open(path string) (status int) {
	b.Helper()
	if strings.HasPrefix(path, "/") {
		path = b.url + path
	}
	return b.load(chromedp.Navigate(path))
}

// visit opens a page that is there.
func (b *tab) visit(path string) {
	b.Helper()
	require.Equal(b, http.StatusOK, b.open(path), "%s", path)
}

// submit presses what sends a form.
func (b *tab) submit(selector string) (status int) {
	b.Helper()
	return b.load(chromedp.Click(selector, chromedp.ByQuery))
}

// press is submit where it is taken.
func (b *tab) press(selector string) {
	b.Helper()
	require.Equal(b, http.StatusOK, b.submit(selector), "%s", b.lazyText())
}

// fill types into fields.
func (b *tab) fill(pairs ...string) {
	b.Helper()
	for i := 0; i < len(pairs); i += 2 {
		b.choose(pairs[i], "")
		b.run(chromedp.SendKeys(pairs[i], pairs[i+1], chromedp.ByQuery))
	}
}

// choose gives a field a value, where that sends no form.
func (b *tab) choose(selector, value string) {
	b.Helper()
	eval[string](b, fmt.Sprintf("document.querySelector(%q).value = %q", selector, value))
}

// eval is what a script of the test's says.
func eval[T any](b *tab, script string) (value T) {
	b.Helper()
	b.run(chromedp.Evaluate(script, &value, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
		return p.WithAwaitPromise(true)
	}))
	return value
}

// count is how many elements there are.
func (b *tab) count(selector string) int {
	b.Helper()
	return eval[int](b, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector))
}

// text is what somebody reads.
func (b *tab) text() string {
	b.Helper()
	return eval[string](b, `document.body.innerText`)
}

type lazyText struct{ b *tab }

func (l lazyText) String() string { return l.b.where() }

func (b *tab) lazyText() lazyText { return lazyText{b} }

// shows is what somebody has to read.
func (b *tab) shows(texts ...string) {
	b.Helper()
	is := b.text()
	for _, text := range texts {
		require.Contains(b, is, text)
	}
}

// path is where the window is.
func (b *tab) path() string {
	b.Helper()
	return eval[string](b, `location.pathname`)
}

// of is the text of an element.
func (b *tab) of(selector string) (text string) {
	b.Helper()
	b.run(chromedp.Text(selector, &text, chromedp.ByQuery))
	return strings.TrimSpace(text)
}

// noContext is what Chromium answers where the page has just given way to the next one.
const noContext = "Cannot find context with specified id"

// await waits until a script says yes.
func (b *tab) await(script string) {
	b.Helper()
	ctx, cancel := b.within()
	defer cancel()
	err := chromedp.Run(ctx, chromedp.Poll(script, nil))
	for err != nil && strings.Contains(err.Error(), noContext) {
		err = chromedp.Run(ctx, chromedp.Poll(script, nil))
	}
	if err != nil {
		require.NoError(b, err, "%s\n%s", script, b.where())
	}
}

// fareway runs a command on the gateway, as its operator does, and is what it prints.
func (s *site) fareway(t testing.TB, args ...string) string {
	t.Helper()
	program, err := exec.LookPath("/proc/self/exe")
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), program, append(append([]string{"gateway"}, args...), "--data",
		s.Dir)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// link is a link that a command prints.
func (s *site) link(t testing.TB, args ...string) string {
	t.Helper()
	link, _, _ := strings.Cut(s.fareway(t, append([]string{"portal"}, args...)...), "\n")
	require.True(t, strings.HasPrefix(link, s.url), link)
	return link
}

const password = "seven quiet otters sleep"

// accept takes an invitation, as somebody new.
func (b *tab) accept(link, name string) {
	b.Helper()
	b.visit(link)
	b.fill("#name", name, "#password", password)
	b.press("main form button")
}

// person is a window in which somebody has signed in who was invited.
func (s *site) person(t testing.TB, email string, flags ...string) *tab {
	t.Helper()
	b := s.newTab(t)
	b.accept(s.link(t, append([]string{"invite", email}, flags...)...), "Person "+email)
	return b
}
