package admin

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/stores"
)

// editHCL is a configuration whose pages may write it, or not.
func editHCL(edit string, more ...string) string {
	return `
portal {
  edit_configuration = ` + edit + `
}
provider "local" {
  plugin = "echo"
}
route "only" {
  provider       = "local"
  model          = "m"
  context_window = 1000
  max_output     = 100
  quality        = 0.5
  price {
    input  = 1
    output = 2
  }
}
` + strings.Join(more, "\n")
}

// page is what the portal asks by, and the gateway behind it.
type page struct {
	*Client
	t      *testing.T
	engine *engine.Engine
	path   string
}

func newPage(t *testing.T, hcl string) *page {
	t.Helper()
	e, path := enginetest.StartFile(t, hcl, engine.Options{})
	return &page{NewLocal(e).As("ann@example.com via portal"), t, e, path}
}

func (p *page) saved() string {
	p.t.Helper()
	text, err := os.ReadFile(p.path)
	require.NoError(p.t, err)
	return string(text)
}

func (p *page) edit(in EditRequest) (v Edited, err error) {
	return v, p.Call(p.t.Context(), "POST", "/fareway/configuration", in, &v)
}

// TestEdit: a file is written as a page has it, whole, where the one who wrote it has seen what it replaces; it serves
// at once, and the audit trail says who did it.
func TestEdit(t *testing.T) {
	t.Parallel()
	p := newPage(t, editHCL("true"))
	real := filepath.Join(filepath.Dir(p.path), "real.hcl")
	require.NoError(t, os.Rename(p.path, real))
	require.NoError(t, os.Symlink("real.hcl", p.path))
	require.NoError(t, os.Chmod(real, 0o640))
	var saved SavedConfiguration
	require.NoError(t, p.Call(t.Context(), "GET", "/fareway/configuration", nil, &saved))
	require.Equal(t, SavedConfiguration{Editable: true, Files: []SavedFile{{p.path, p.saved(),
		config.DigestOf(p.saved()), true}}}, saved)

	next := strings.Replace(p.saved(), "input  = 1", "input  = 3", 1)
	done, err := p.edit(EditRequest{Text: next, Was: saved.Files[0].SHA256})
	require.NoError(t, err)
	require.True(t, done.Changed)
	require.Equal(t, next, p.saved())
	require.EqualValues(t, 300_000_000, p.engine.Current().Config.Routes[0].Price.Input)
	info, err := os.Stat(real)
	require.NoError(t, err)
	require.EqualValues(t, 0o640, info.Mode().Perm())
	info, err = os.Lstat(p.path)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink, "the link stays")
	require.Equal(t, "edit by ann@example.com via portal", p.engine.InForce().By)
	acts := listOf[Act](t, p.Client, "/fareway/ledger/audit")
	require.Equal(t, "configuration.edit", acts[len(acts)-1].Action)
	require.Equal(t, "ann@example.com via portal", acts[len(acts)-1].Actor)

	again, err := p.edit(EditRequest{Text: next, Was: config.DigestOf(next)})
	require.NoError(t, err)
	require.False(t, again.Changed)

	t.Run("two at once: the second sees the first's change before writing", func(t *testing.T) {
		_, err := p.edit(EditRequest{Text: next + "plan \"b\" {}\n", Was: saved.Files[0].SHA256})
		require.Equal(t, http.StatusConflict, StatusOf(err))
		require.ErrorContains(t, err, "somebody else in the meantime")
		require.Equal(t, next, p.saved())
	})
	t.Run("errors", func(t *testing.T) {
		_, err := p.edit(EditRequest{Text: next + "rout \"x\" {}\n", Was: config.DigestOf(next)})
		require.Equal(t, http.StatusUnprocessableEntity, StatusOf(err))
		require.ErrorContains(t, err, "gateway.hcl:19:1")
		require.ErrorContains(t, err, "^")
		_, err = p.edit(EditRequest{Was: config.DigestOf(next),
			Text: next + "store \"sqlite\" {\n  path = \"other.db\"\n}\n"})
		require.Equal(t, http.StatusUnprocessableEntity, StatusOf(err), "what the gateway would refuse")
		require.Equal(t, next, p.saved())
	})
	t.Run("only its own files", func(t *testing.T) {
		for _, file := range []string{"/etc/passwd", "gateway.hcl", real, filepath.Join(filepath.Dir(p.path), "new.hcl")} {
			_, err := p.edit(EditRequest{File: file, Text: next, Was: ""})
			require.Equal(t, http.StatusNotFound, StatusOf(err), file)
		}
	})
	t.Run("not over a network", func(t *testing.T) {
		a := adminOf(t, p.engine)
		for _, handle := range []func(*http.Request) (any, error){a.editConfiguration, a.savedConfiguration} {
			_, err := handle(&http.Request{TLS: new(tls.ConnectionState)})
			require.Equal(t, http.StatusForbidden, asAPIError(err).HTTPStatus)
		}
	})
}

// TestEditOfAnIncludedFile: each file by itself.
func TestEditOfAnIncludedFile(t *testing.T) {
	t.Parallel()
	p := newPage(t, editHCL("true"))
	part := filepath.Join(filepath.Dir(p.path), "plans.hcl")
	require.NoError(t, os.WriteFile(part, []byte("plan \"a\" {}\n"), 0o600))
	_, err := p.edit(EditRequest{Text: "include \"plans.hcl\"\n" + p.saved(), Was: config.DigestOf(p.saved())})
	require.NoError(t, err)
	main := p.saved()
	_, err = p.edit(EditRequest{File: part, Text: "plan \"a\" {}\nplan \"b\" {}\n",
		Was: config.DigestOf("plan \"a\" {}\n")})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, PlanNames(p.engine.Current().Config))
	require.Equal(t, main, p.saved())
}

// TestEditIsOff: a gateway writes no file where nobody on its machine has allowed it.
func TestEditIsOff(t *testing.T) {
	t.Parallel()
	p := newPage(t, editHCL("false"))
	before := p.saved()
	for _, text := range []string{editHCL("true"), before + "plan \"b\" {}\n"} {
		_, err := p.edit(EditRequest{Text: text, Was: config.DigestOf(before)})
		require.Equal(t, http.StatusForbidden, StatusOf(err))
		require.ErrorContains(t, err, "gateway apply")
	}
	require.Equal(t, before, p.saved())
}

// TestEditIsPutBack: what cannot be loaded, or be put down to anybody, is put back.
func TestEditIsPutBack(t *testing.T) {
	t.Parallel()
	p := newPage(t, editHCL("true"))
	a := &API{}
	a.attach(p.engine)
	before := p.saved()
	secret := filepath.Join(filepath.Dir(p.path), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("x"), 0o600))
	next := before + "locals {\n  x = file(\"secret\")\n}\n"
	plan := func() *Plan {
		var v Plan
		require.NoError(t, p.Call(t.Context(), "POST", "/fareway/plan", PlanRequest{Text: &next}, &v))
		require.True(t, v.OK, v.Text)
		return &v
	}
	looked := plan()
	require.NoError(t, os.Remove(secret), "between the look at it and its loading")
	_, err := a.installEdit(t.Context(), looked)
	require.Equal(t, http.StatusUnprocessableEntity, asAPIError(err).HTTPStatus)
	require.ErrorContains(t, err, "Unreadable file")
	require.ErrorContains(t, err, "the file is put back as it was")
	require.Equal(t, before, p.saved())
	require.Nil(t, p.engine.FailedLoad(), "what is saved serves")

	next = before + "plan \"b\" {}\n"
	looked = plan()
	require.NoError(t, os.WriteFile(p.path, []byte(before+"# theirs\n"), 0o600))
	_, err = a.installEdit(t.Context(), looked)
	require.Equal(t, http.StatusConflict, asAPIError(err).HTTPStatus)
	require.Equal(t, before+"# theirs\n", p.saved())
}

// TestPlanOfAPage: who writes on a page gets nothing of the machine, whatever they write.
func TestPlanOfAPage(t *testing.T) {
	t.Parallel()
	secret := os.Getenv("PATH") // as good as any
	serving := editHCL("false") + "locals {\n  key = env(\"PATH\")\n}\n"
	p := newPage(t, serving)
	plan := func(in PlanRequest) (v Plan, err error) {
		return v, p.Call(t.Context(), "POST", "/fareway/plan", in, &v)
	}
	file := filepath.Join(t.TempDir(), "taken")
	require.NoError(t, os.WriteFile(file, []byte("sk-secret-of-a-file"), 0o600))
	model := func(value string) string {
		return strings.Replace(serving, `model          = "m"`, "model = "+value, 1)
	}
	for attack, text := range map[string]string{
		"a file": model(`file("` + file + `")`), "env": model(`env("PATH")`), "a local": model(`local.key`),
		"a program":        strings.Replace(serving, `plugin = "echo"`, `plugin = "openai"`, 1),
		"a folder":         serving + "gateway {\n  plugin_dir = \"" + filepath.Dir(file) + "\"\n}\n",
		"an included file": serving + "include \"" + file + "\"\n",
		"a model file":     serving + "predictor {\n  model = \"" + file + "\"\n}\n",
	} {
		v, err := plan(PlanRequest{Text: &text})
		require.NoError(t, err, attack)
		require.False(t, v.OK, attack)
		require.Empty(t, v.Changes, attack)
		require.NotContains(t, v.Text, "sk-secret", attack)
		require.NotContains(t, v.Text, secret, attack)
		require.Contains(t, v.Text, "gateway plan", attack)
		err = p.PostLines(t.Context(), "/fareway/replay", ReplayRequest{Text: text}, func([]byte) error { return nil })
		require.Equal(t, http.StatusUnprocessableEntity, StatusOf(err), attack)
	}
	fine := strings.Replace(serving, "input  = 1", "input  = 3", 1)
	v, err := plan(PlanRequest{Text: &fine})
	require.NoError(t, err)
	require.True(t, v.OK, v.Text)
	require.True(t, v.Untried)
	require.Len(t, v.Changes, 1)
	_, err = plan(PlanRequest{Text: &fine, File: "/etc/passwd"})
	require.Equal(t, http.StatusNotFound, StatusOf(err))

	// Where pages may write it, they plan what commands do; what comes from outside is shown nowhere all the same.
	q := newPage(t, strings.Replace(serving, "= false", "= true", 1))
	text := strings.Replace(q.saved(), `model          = "m"`, "model = local.key", 1)
	require.NoError(t, q.Call(t.Context(), "POST", "/fareway/plan", PlanRequest{Text: &text}, &v))
	require.True(t, v.OK, v.Text)
	require.Len(t, v.Changes, 1)
	require.JSONEq(t, `"***"`, string(v.Changes[0].Fields[0].After))
}

// unrecorded is a ledger that takes no act.
type unrecorded struct {
	live.Store
	asked chan string
}

// RecordAct implements ledger.Store.
func (u unrecorded) RecordAct(_ context.Context, action, _, _ string, _ map[string]any) error {
	u.asked <- action
	return ledger.ErrUnavailable
}

// TestEditIsPutDownToSomebody: where the audit trail cannot be written, nothing is.
func TestEditIsPutDownToSomebody(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	e, path := enginetest.StartFile(t, editHCL("true"), engine.Options{OpenStore: func(at config.Store, data string,
		o ledger.Options) (ledger.Store, error) {
		store, err := stores.Open(at, data, o)
		is, _ := store.(live.Store)
		return unrecorded{is, asked}, err
	}})
	p := &page{NewLocal(e).As("ann@example.com via portal"), t, e, path}
	before, number := p.saved(), e.InForce().Number
	_, err := p.edit(EditRequest{Text: before + "plan \"b\" {}\n", Was: config.DigestOf(before)})
	require.Equal(t, http.StatusServiceUnavailable, StatusOf(err))
	require.ErrorContains(t, err, "nothing is written")
	require.Equal(t, "configuration.edit", <-asked)
	require.Equal(t, before, p.saved())
	require.Equal(t, number, e.InForce().Number, "it never served")
}

// TestPagesAskForOneThingAtATime: what takes long goes on when a page has given it up, and the next one waits for its
// end; commands do not.
func TestPagesAskForOneThingAtATime(t *testing.T) {
	t.Parallel()
	p := newPage(t, editHCL("false"))
	text := p.saved()
	ask := func(c *Client) (statuses []int) {
		line := func([]byte) error { return nil }
		for _, err := range []error{
			c.Call(t.Context(), "POST", "/fareway/plan", PlanRequest{Text: &text}, new(Plan)),
			c.PostLines(t.Context(), "/fareway/replay", ReplayRequest{Text: text, Since: p.engine.Now()}, line),
			c.Call(t.Context(), "POST", "/fareway/ledger/verify", Verification{}, new(Verified)),
		} {
			if err != nil {
				require.NotZero(t, StatusOf(err), err)
			}
			statuses = append(statuses, StatusOf(err))
		}
		return statuses
	}
	p.engine.PageWork.Lock()
	require.Equal(t, []int{429, 429, 429}, ask(p.Client))
	serveUnix(t, p.engine)
	command, err := NewClient(p.engine.DataDir(), "")
	require.NoError(t, err)
	require.Equal(t, []int{0, 0, 0}, ask(command))
	p.engine.PageWork.Unlock()
	require.Equal(t, []int{0, 0, 0}, ask(p.Client))
}
