package engine

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/config/change"
	"github.com/fareway/fareway/modules/internal/stores"
	"github.com/fareway/fareway/plugins/host"
)

// watched is an engine with a configuration file that is kept up with, by seconds that the test makes pass.
type watched struct {
	*Engine
	t       *testing.T
	dir     string
	path    string
	log     *safe
	asked   chan timer // of the watch, which waits for one at a time
	pending *timer     // the next look
	between func()     // between a look that finds a change and the next one
	live    *Live
}

type timer struct {
	d    time.Duration
	fire chan time.Time
}

// liveHCL is a configuration with one route and a plan.
func liveHCL(price string, more ...string) string {
	return fmt.Sprintf(`
provider "upstream" {
  plugin        = "archivist"
  start_timeout = "1m"
  config {
    dir = "/nowhere"
  }
}
route "only" {
  provider       = "upstream"
  model          = "m"
  context_window = 1000
  max_output     = 100
  quality        = 0.5
  price {
    input  = %s
    output = 2
  }
}
%s
`, price, strings.Join(more, "\n"))
}

func watch(t *testing.T, hcl string) *watched {
	t.Helper()
	dir := t.TempDir()
	w := &watched{t: t, dir: dir, path: filepath.Join(dir, "gateway.hcl"), log: new(safe), asked: make(chan timer, 100)}
	w.save(hcl)
	h := host.New(host.Options{Builtin: builtinArchivist})
	cfg, diags := config.Load(t.Context(), w.path, optionsOf(h))
	h.Close()
	require.NoError(t, diags.Err())
	e, err := Open(Options{OpenStore: stores.Open, DataDir: filepath.Join(dir, "data"), Builtin: builtinArchivist,
		Logger: slog.New(slog.NewTextHandler(w.log, nil)), After: w.after}, cfg)
	require.NoError(t, err)
	w.Engine = e
	w.live, err = e.Live(t.Context(), cfg)
	require.NoError(t, err)
	w.live.Start()
	t.Cleanup(func() {
		w.live.Retire()
		require.NoError(t, e.Close())
	})
	return w
}

// after is the engine's clock: only what the watch waits for passes, when the test says so.
func (w *watched) after(d time.Duration) <-chan time.Time {
	one := timer{d, make(chan time.Time, 1)}
	if d == lookEvery || d == settleFor {
		w.asked <- one
	}
	return one.fire
}

// second lets the watch look once, and returns when it is done with what it found. looks is how often it looked.
func (w *watched) second() (looks int) {
	if w.pending == nil {
		w.pending = new(<-w.asked)
	}
	for next := *w.pending; ; {
		next.fire <- time.Time{} // of what the clock says nothing is made
		looks++
		if next = <-w.asked; next.d == lookEvery {
			w.pending = &next
			return looks
		}
		if w.between != nil {
			w.between()
		}
	}
}

func (w *watched) save(text string) { w.write(w.path, text) }

func (w *watched) write(path, text string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
}

// price is what the input of the route costs now, in dollars.
func (w *watched) price() int64 { return w.Current().Config.Routes[0].Price.Input / 100_000_000 }

// TestSavingIsEnough: what is saved serves, without a reload and without a process started again.
func TestSavingIsEnough(t *testing.T) {
	t.Parallel()
	w := watch(t, liveHCL("1"))
	first := w.Current()
	require.Equal(t, 1, w.second())
	require.Same(t, first, w.Current(), "nothing was saved")
	request := w.Begin()
	pid := first.plugins[0].Info().PID

	w.save(liveHCL("2"))
	require.Equal(t, 2, w.second(), "it looks once more whether the file is whole")
	require.EqualValues(t, 2, w.price())
	require.EqualValues(t, 2, w.InForce().Number)
	require.Same(t, first, request.Generation(), "a request stays on its configuration")
	require.Equal(t, pid, w.Current().plugins[0].Info().PID, "nothing of the process has changed")
	require.Equal(t, 1, w.log.count("the saved configuration serves"))
	request.Done()
	require.Zero(t, first.refs)

	values := w.metrics.values(t)
	require.InDelta(t, 2, values[`fareway_config_loads_total{result="taken"}`], 0)
	require.InDelta(t, 0, values["fareway_config_refused{}"], 0)
	require.InDelta(t, float64(w.InForce().Since.UnixMilli())/1000,
		values[fmt.Sprintf("fareway_config_in_force_since_timestamp_seconds{hash=%q}", w.Current().Config.Hash)], 0)
	require.NotContains(t, values,
		fmt.Sprintf("fareway_config_in_force_since_timestamp_seconds{hash=%q}", first.Config.Hash), "one at a time")

	// Content decides: another inode with the same bytes, and another time, are no change.
	w.write(w.path+".new", liveHCL("2"))
	require.NoError(t, os.Rename(w.path+".new", w.path))
	require.NoError(t, os.Chtimes(w.path, time.Unix(1, 0), time.Unix(1, 0)))
	require.Equal(t, 1, w.second())
	require.EqualValues(t, 2, w.InForce().Number)
}

// TestWarningsOfALoad are in the log: a file that serves may have slips in it.
func TestWarningsOfALoad(t *testing.T) {
	t.Parallel()
	w := watch(t, liveHCL("1"))
	w.save(strings.Replace(liveHCL("2"), "output = 2",
		"output = 2\n    above \"9000\" {\n      input = 1\n      output = 1\n    }", 1))
	w.second()
	require.EqualValues(t, 2, w.price())
	require.Equal(t, 1, w.log.count(`level=WARN msg="found in the configuration: No request is so long`))
}

// TestBadCandidate: the old configuration serves, and log, metric and state say why, as `check` does; once.
func TestBadCandidate(t *testing.T) {
	t.Parallel()
	w := watch(t, liveHCL("1"))
	w.save(liveHCL("1", "rout \"small\" {}"))
	require.Equal(t, 2, w.second())
	require.EqualValues(t, 1, w.InForce().Number)
	failed := w.FailedLoad()
	require.True(t, failed.InFile)
	require.Equal(t, w.path, failed.Path)
	require.Contains(t, failed.Problem, "gateway.hcl:20:1")
	_, checked := w.Load(t.Context(), w.path, nil)
	require.Equal(t, textOf(checked), failed.Text(), "as check prints it, with the line and a caret")
	require.Contains(t, failed.Text(), "^^^^")
	require.Equal(t, 1, w.log.count("the saved configuration is refused; the one before serves on"))
	require.Equal(t, 1, w.log.count("   20 |"))
	require.InDelta(t, 1, w.metrics.values(t)["fareway_config_refused{}"], 0)

	for range 2 * retryLooks {
		w.second()
	}
	require.Equal(t, 1, w.log.count("is refused"), "what is known is not said again")
	require.InDelta(t, 1, w.metrics.values(t)[`fareway_config_loads_total{result="refused"}`], 0)
	require.Same(t, failed, w.FailedLoad())
	_, err := w.Reload(t.Context())
	require.ErrorContains(t, err, "is refused, and what served before goes on: loading configuration: ")
	var diags *config.Diagnostics
	require.ErrorAs(t, err, &diags)

	w.save(liveHCL("1", "rout \"other\" {}"))
	w.second()
	require.Equal(t, 2, w.log.count("is refused"), "another mistake")

	// The file that serves is put back.
	w.save(liveHCL("1"))
	w.second()
	require.Nil(t, w.FailedLoad())
	require.InDelta(t, 0, w.metrics.values(t)["fareway_config_refused{}"], 0)
	require.Equal(t, 1, w.log.count("again what serves"))
	require.EqualValues(t, 1, w.InForce().Number)

	// What was bad before is bad again.
	w.save(liveHCL("1", "rout \"other\" {}"))
	w.second()
	require.NotNil(t, w.FailedLoad())
	w.save(liveHCL("3"))
	w.second()
	require.Nil(t, w.FailedLoad())
	require.EqualValues(t, 3, w.price())
}

// TestTornSaves: a file of which half is there, though that half is whole by itself, is not loaded.
func TestTornSaves(t *testing.T) {
	t.Parallel()
	w := watch(t, liveHCL("1", "plan \"p\" {}"))
	half := liveHCL("2")
	w.save(half)
	w.between = func() {
		w.save(liveHCL("2", "plan \"p\" {}"))
		w.between = nil
	}
	require.Equal(t, 3, w.second(), "it looks until two looks agree")
	require.EqualValues(t, 2, w.InForce().Number, "only the whole file was loaded")
	require.Len(t, w.Current().Config.Plans, 1)

	// A writer who never stops does not keep the gateway from what is there.
	n := 2
	w.between = func() {
		n++
		w.save(liveHCL(fmt.Sprint(n), "plan \"p\" {}"))
	}
	w.save(liveHCL("2", "plan \"p\" {} "))
	require.Equal(t, 1+settleLooks, w.second())
	require.EqualValues(t, n, w.price())

	// One that is saved half and mended by the next save.
	w.between = nil
	w.save(liveHCL("7")[:100])
	w.second()
	require.NotNil(t, w.FailedLoad())
	w.save(liveHCL("7"))
	w.second()
	require.Nil(t, w.FailedLoad())
	require.EqualValues(t, 7, w.price())
}

// TestFilesThatVanish: the old configuration serves while a file is away, unreadable or no file, and what comes back
// is what serves.
func TestFilesThatVanish(t *testing.T) {
	t.Parallel()
	credits := "plan \"p\" {\n  spend_cap_credits = file(\"cap\")\n}"
	w := watch(t, liveHCL("1"))
	capped := filepath.Join(w.dir, "cap")
	w.write(capped, "7")
	w.save(liveHCL("1", credits))
	w.second()
	require.EqualValues(t, 7, w.Current().Config.Plans[0].SpendCapCredits)
	w.write(capped, "8")
	w.second()
	require.EqualValues(t, 8, w.Current().Config.Plans[0].SpendCapCredits, "a file that it names, such as a secret")

	for name, away := range map[string]func(path string){
		"removed":    func(path string) { require.NoError(t, os.Remove(path)) },
		"a folder":   func(path string) { require.NoError(t, os.Remove(path)); require.NoError(t, os.Mkdir(path, 0o700)) },
		"a dead end": func(path string) { require.NoError(t, os.Remove(path)); require.NoError(t, os.Symlink("x", path)) },
	} {
		for path, problem := range map[string]string{w.path: "Unreadable configuration", capped: "Unreadable file \"cap\""} {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			number := w.InForce().Number
			away(path)
			w.second()
			require.NotNil(t, w.FailedLoad(), "%s: %s", path, name)
			require.Contains(t, w.FailedLoad().Problem, problem, name)
			require.Equal(t, number, w.InForce().Number, name)
			require.NoError(t, os.RemoveAll(path))
			w.write(path, string(text))
			w.second()
			require.Nil(t, w.FailedLoad(), name)
			require.Equal(t, number, w.InForce().Number, name)
		}
	}
	require.EqualValues(t, 8, w.Current().Config.Plans[0].SpendCapCredits)
}

// TestSymlinkSwap: as Kubernetes mounts a ConfigMap and a Secret: the files are links through one that is swapped.
func TestSymlinkSwap(t *testing.T) {
	t.Parallel()
	w := watch(t, liveHCL("1"))
	version := func(name, price, credits string) {
		dir := filepath.Join(w.dir, name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		w.write(filepath.Join(dir, "gateway.hcl"), liveHCL(price, "plan \"p\" {\n  spend_cap_credits = file(\"cap\")\n}"))
		w.write(filepath.Join(dir, "cap"), credits)
		require.NoError(t, os.Symlink(name, filepath.Join(w.dir, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(w.dir, "..data_tmp"), filepath.Join(w.dir, "..data")))
	}
	version("..2026_1", "2", "7")
	require.NoError(t, os.Symlink("..data/cap", filepath.Join(w.dir, "cap")))
	require.NoError(t, os.Remove(w.path))
	require.NoError(t, os.Symlink("..data/gateway.hcl", w.path))
	w.second()
	require.EqualValues(t, 2, w.price())
	version("..2026_2", "3", "8")
	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "..2026_1")))
	w.second()
	require.EqualValues(t, 3, w.price())
	require.EqualValues(t, 8, w.Current().Config.Plans[0].SpendCapCredits, "both at once")
	require.EqualValues(t, 3, w.InForce().Number)
}

// TestRefusedChanges: what a running gateway keeps, and what its accounts need.
func TestRefusedChanges(t *testing.T) {
	t.Parallel()
	w := watch(t, liveHCL("1", "plan \"used\" {}"))
	refused := func(hcl, problem, text string) {
		t.Helper()
		w.save(hcl)
		w.second()
		require.NotNil(t, w.FailedLoad())
		require.Contains(t, w.FailedLoad().Problem, problem)
		require.True(t, w.FailedLoad().InFile)
		require.Equal(t, text, w.FailedLoad().Text(), "as check would print it")
		require.EqualValues(t, 1, w.InForce().Number)
		_, err := w.Reload(t.Context())
		require.ErrorContains(t, err, problem)
	}
	const store = "store \"sqlite\" {\n  path = \"other.db\"\n}"
	refused(liveHCL("2", "plan \"used\" {}", store), w.path+":21:1: The store block has changed: It was sqlite",
		`Error: The store block has changed
  at `+w.path+`:21:1
   21 | store "sqlite" {
      | ^^^^^^^^^^^^^^
  It was sqlite "fareway.db" and is sqlite "other.db". A running gateway keeps its store: restart it to change that.
`)
	account, err := w.Store().CreateAccount(t.Context(), "acme", "used")
	require.NoError(t, err)
	refused(liveHCL("3"), w.path+`: Accounts are on plans that the configuration lacks ("used"): `,
		`Error: Accounts are on plans that the configuration lacks ("used")
  at `+w.path+`
  Put their plan blocks back ("used" stood at `+w.path+":20), or move these accounts first, with `gateway account "+
			"set-plan NAME PLAN`.\n")
	require.Equal(t, 2, w.log.count("is refused"))
	broken := strings.Replace(liveHCL("4", "plan \"used\" {}"), "/nowhere", "", 1)
	refused(broken, w.path+`:6:11: Provider "upstream" does not start`,
		`Error: Provider "upstream" does not start
  at `+w.path+`:6:11
    6 |     dir = ""
      |           ^^
  setting dir must name a folder.
`)
	w.save(liveHCL("3"))
	w.second()

	// What hindered it goes away.
	_, err = w.Store().SetPlan(t.Context(), account.ID, "")
	require.NoError(t, err)
	for range retryLooks {
		require.EqualValues(t, 1, w.price())
		w.second()
	}
	require.EqualValues(t, 3, w.price(), "it is tried again")
	require.Nil(t, w.FailedLoad())
}

// TestReloadNow: a reload by hand does at once what saving does.
func TestReloadNow(t *testing.T) {
	t.Parallel()
	w := watch(t, liveHCL("1"))
	changed, err := w.Reload(t.Context())
	require.NoError(t, err)
	require.False(t, changed)
	w.save(liveHCL("2"))
	changed, err = w.Reload(t.Context())
	require.NoError(t, err)
	require.True(t, changed)
	require.EqualValues(t, 2, w.price())
	require.Equal(t, 1, w.second(), "there is nothing left to do")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.save(liveHCL("3"))
	_, err = w.Reload(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, w.FailedLoad(), "that says nothing about the file")
	w.second()
	require.EqualValues(t, 3, w.price())

	// A failure that is not in the file, of a Caddyfile perhaps, is not undone by what is saved there.
	w.NoteFailedLoad(FailedLoad{Problem: "elsewhere"})
	require.Equal(t, 1, w.second())
	_, err = w.Reload(t.Context())
	require.NoError(t, err)
	require.NotNil(t, w.FailedLoad())

	w.BeginDrain(time.Hour)
	w.save(liveHCL("4"))
	_, err = w.Reload(t.Context())
	require.ErrorIs(t, err, ErrShutdown, "nothing is begun any more")
	require.EqualValues(t, 3, w.price())
}

// TestLiveBesideAnother: while Caddy loads another configuration, the newest one serves whatever is saved for the old.
func TestLiveBesideAnother(t *testing.T) {
	t.Parallel()
	w := watch(t, liveHCL("1"))
	other := filepath.Join(w.dir, "other.hcl")
	w.write(other, liveHCL("5"))
	cfg, diags := w.Load(t.Context(), other, nil)
	require.NoError(t, diags.Err())
	second, err := w.Engine.Live(t.Context(), cfg)
	require.NoError(t, err)
	w.Activate(second.gen)
	require.EqualValues(t, 5, w.price())
	w.save(liveHCL("2"))
	w.second()
	require.EqualValues(t, 5, w.price(), "the newest serves")
	second.Retire()
	require.EqualValues(t, 2, w.price(), "the old one as it is by now")
	_, err = second.Reload(t.Context())
	require.ErrorIs(t, err, ErrReplaced)
}

// TestInForce: what is in force, since when, from which content; and what was.
func TestInForce(t *testing.T) {
	t.Parallel()
	w := watch(t, liveHCL("1"))
	first := w.InForce()
	require.Same(t, w.Current(), first.Generation)
	require.EqualValues(t, 1, first.Kept)
	require.Equal(t, "start", first.By)
	w.write(filepath.Join(w.dir, "cap"), "7")
	w.save(liveHCL("2", "plan \"p\" {\n  spend_cap_credits = file(\"cap\")\n}"))
	w.second()
	second := w.InForce()
	require.EqualValues(t, 2, second.Kept)
	require.Equal(t, "saved file", second.By)
	changed, err := w.Reload(WithCause(t.Context(), "apply by ann"))
	require.NoError(t, err)
	require.False(t, changed)
	require.Equal(t, "apply by ann", w.InForce().By, "who asks just then has saved it")
	kept, err := w.History().Get(2)
	require.NoError(t, err)
	require.Equal(t, "apply by ann", kept.By)
	_, err = w.Reload(WithCause(t.Context(), "reload by bob"))
	require.NoError(t, err)
	require.Equal(t, "apply by ann", w.InForce().By, "once")
	require.False(t, second.Since.Before(first.Since))
	list, err := w.History().List()
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, map[string]*string{w.path: new(liveHCL("1"))}, list[0].Texts())
	require.Len(t, list[1].Files, 2)
	require.NotContains(t, list[1].Texts(), filepath.Join(w.dir, "cap"), "what may be a secret is not copied")

	// The same content, loaded by Caddy: it has been in force all the time.
	cfg, diags := w.Load(t.Context(), w.path, nil)
	require.NoError(t, diags.Err())
	again, err := w.Engine.Live(t.Context(), cfg)
	require.NoError(t, err)
	w.Activate(again.gen)
	require.Same(t, again.gen, w.InForce().Generation)
	require.Equal(t, second.Since, w.InForce().Since)
	again.Retire()

	// A folder that takes no more keeps nothing from serving.
	require.NoError(t, os.RemoveAll(filepath.Join(w.DataDir(), "configurations")))
	w.write(filepath.Join(w.DataDir(), "configurations"), "")
	w.save(liveHCL("3"))
	w.second()
	require.EqualValues(t, 3, w.price())
	require.Zero(t, w.InForce().Kept)
	require.EqualValues(t, 3, w.InForce().Number, "its number counts all the same")
	require.Equal(t, 1, w.log.count("is not kept for a rollback"))
}

// TestSavedWhileItIsRead: what the watch reads while it is being saved may be a part: nothing is said of it, and the
// next look takes what it is then.
func TestSavedWhileItIsRead(t *testing.T) {
	t.Parallel()
	w := watch(t, liveHCL("1"))
	w.save(liveHCL("2"))
	settled := config.Digest(w.path)
	w.save("") // the beginning of another save
	_, err := w.live.reload(t.Context(), settled)
	require.ErrorIs(t, err, errUnsettled)
	require.Nil(t, w.FailedLoad())
	w.save(liveHCL("3"))
	require.Equal(t, 2, w.second())
	require.EqualValues(t, 3, w.price())
	require.Zero(t, w.log.count("refused"))
}

// TestReplacedPlugin: the executable of a plugin is a file that the configuration names: other content takes effect
// by itself, in a new process, and one that cannot be used leaves the old one serving.
func TestReplacedPlugin(t *testing.T) {
	t.Parallel()
	w := watch(t, liveHCL("1"))
	dir := filepath.Join(w.dir, "plugins")
	require.NoError(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "fareway-provider-scripted")
	self, err := os.Executable()
	require.NoError(t, err)
	script := func(comment string) string {
		return fmt.Sprintf("#!/bin/sh\n# %s\nexec %q provider archivist\n", comment, self)
	}
	install := func(comment string) {
		t.Helper()
		require.NoError(t, os.WriteFile(path+".new", []byte(script(comment)), 0o700))
		require.NoError(t, os.Rename(path+".new", path))
	}
	pid := func() int { return w.Current().plugins[0].Info().PID }

	text := strings.Replace(liveHCL("2", "gateway {\n  plugin_dir = \"plugins\"\n}"), `"archivist"`, `"scripted"`, 1)
	w.save(text)
	w.second()
	require.Contains(t, w.FailedLoad().Text(), "there is no file "+path)
	require.Contains(t, w.FailedLoad().Text(), w.path+":3:")
	install("one")
	require.Equal(t, 2, w.second(), "it has come, and is whole")
	require.Nil(t, w.FailedLoad())
	require.EqualValues(t, 2, w.price())
	w.second()
	first, running, kept := w.Current(), pid(), w.InForce().Kept
	request := w.Begin()

	install("one")
	require.Equal(t, 1, w.second(), "content decides")
	require.Same(t, first, w.Current())
	install("two")
	planned, err := w.Plan(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, planned.OK())
	require.Len(t, planned.Changes, 1)
	require.Equal(t, change.Restarts, planned.Changes[0].Process)
	require.Equal(t, "executable", planned.Changes[0].Fields[0].Name)
	require.Contains(t, string(planned.Changes[0].Fields[0].After), config.DigestOf(script("two"))[:12])
	require.Equal(t, 2, w.second())
	require.NotSame(t, first, w.Current())
	require.NotEqual(t, running, pid(), "another process")
	require.Equal(t, kept, w.InForce().Kept, "the configuration is the same")
	require.Equal(t, 1, w.log.count("replaced plugins serve"))
	require.Same(t, first, request.Generation())
	require.Equal(t, running, request.Generation().plugins[0].Info().PID, "requests end where they began")
	request.Done()

	// A file system without useful times: the same inode, size and time.
	second := w.Current()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(script("six")), 0o700))
	require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	for range readEvery {
		w.second()
	}
	require.NotSame(t, second, w.Current())

	// One that is away, and comes back.
	third := w.Current()
	require.NoError(t, os.Remove(path))
	w.second()
	require.Contains(t, w.FailedLoad().Problem, "there is no file "+path)
	require.Same(t, third, w.Current())
	install("six")
	w.second()
	require.Nil(t, w.FailedLoad())
	require.Same(t, third, w.Current())

	// One that is pinned.
	w.save(strings.Replace(text, "plugin        =",
		fmt.Sprintf("sha256 = %q\n  plugin        =", config.DigestOf(script("six"))), 1))
	w.second()
	require.Nil(t, w.FailedLoad())
	fourth := w.Current()
	require.NotSame(t, third, fourth)
	require.NotEqual(t, third.plugins[0].Plugin, fourth.plugins[0].Plugin, "it is started anew only as it is pinned")
	install("ten")
	w.second()
	require.Contains(t, w.FailedLoad().Text(), "if you trust the file, set sha256 to the former")
	require.Same(t, fourth, w.Current())
}
