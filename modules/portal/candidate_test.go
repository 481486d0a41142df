package portal

import (
	"html"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/plugins/echo"
	"github.com/fareway/fareway/plugins/provider"
)

// TestMain makes the test binary the provider of the configurations that are loaded, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "gateway" && os.Args[2] == "provider" {
		provider.Serve(echo.New())
		return
	}
	os.Exit(m.Run())
}

// candidateHCL is a configuration whose pages may write it, or not.
func candidateHCL(edit string) string {
	return `portal {
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
`
}

// TestOthersWork: what takes long is done for one page at a time, and who comes meanwhile keeps what they have written.
func TestOthersWork(t *testing.T) {
	t.Parallel()
	s, _ := newFileSite(t, candidateHCL("false"), nil)
	b := s.operator("root@example.com", people.Admin)
	s.engine.PageWork.Lock()
	defer s.engine.PageWork.Unlock()
	for path, fields := range map[string][]string{
		candidatePath:                  {"act", "plan", "text", "# mine"},
		"/portal/operator/checkpoints": {"act", "verify", "kept", `{"checkpoint":{"n":1}}`},
	} {
		a := b.post(path, fields...)
		require.Equal(t, http.StatusTooManyRequests, a.StatusCode, a.body)
		require.Contains(t, a.body, "Somebody else is having something large looked at just now.")
		require.Contains(t, a.body, map[bool]string{true: "# mine", false: "&#34;n&#34;:1"}[path == candidatePath])
	}
}

func TestLineEnds(t *testing.T) {
	t.Parallel()
	for saved, want := range map[string]string{"a\nb\n": "1\n2\n", "a\r\nb\r\n": "1\r\n2\r\n", "a\r\nb\n": "1\n2\n",
		"": "1\n2\n"} {
		require.Equal(t, want, lineEndsAs(saved, "1\r\n2\r\n"), "%q", saved)
	}
}

// newFileSite is a site whose engine has a configuration file.
func newFileSite(t *testing.T, hcl string, now func() time.Time) (s *site, path string) {
	t.Helper()
	e, path := enginetest.StartFile(t, hcl, engine.Options{Now: now})
	return siteOf(t, e), path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// typed is what a browser sends of the text area of a page.
func typed(t *testing.T, a answer) string {
	t.Helper()
	area := regexp.MustCompile(`(?s)<textarea[^>]*>\n?(.*)</textarea>`).FindStringSubmatch(a.body)
	require.Len(t, area, 2)
	return strings.ReplaceAll(html.UnescapeString(area[1]), "\n", "\r\n")
}

// TestCandidate: an admin sees what a text would change before they write it, and it is the text that they have seen.
func TestCandidate(t *testing.T) {
	t.Parallel()
	s, path := newFileSite(t, candidateHCL("true"), nil)
	before := readFile(t, path)
	b := s.operator("admin@example.com", people.Admin)
	first := b.get(candidatePath)
	requireSafe(t, first)
	require.Equal(t, before, strings.ReplaceAll(typed(t, first), "\r\n", "\n"))
	require.NotContains(t, first.body, `value="write"`, "nothing was shown yet")
	was := config.DigestOf(before)
	next := strings.Replace(typed(t, first), "input  = 1", "input  = 3", 1)
	post := func(act, text, was, seen string) answer {
		t.Helper()
		a := b.post(candidatePath, "act", act, "text", text, "was", was, "seen", seen, "replay", "yes")
		requireSafe(t, a)
		return a
	}
	shown := post("plan", next, was, "")
	require.Equal(t, http.StatusOK, shown.StatusCode)
	for _, want := range []string{"<del>-    input  = 1\n", "<ins>+    input  = 3\n", "route only",
		"$1.00 per million", "$3.00 per million", `value="write"`, "nothing is remembered"} {
		require.Contains(t, shown.body, want)
	}
	require.Equal(t, before, readFile(t, path))

	seen := config.DigestOf(strings.ReplaceAll(next, "\r\n", "\n"))
	unseen := post("write", next+"# more\r\n", was, seen)
	require.Contains(t, unseen.body, "another one than the one whose changes you have seen")
	require.Equal(t, before, readFile(t, path))

	wrong := post("plan", next+"rout \"x\" {}\r\n", was, "")
	require.Equal(t, http.StatusUnprocessableEntity, wrong.StatusCode)
	require.Contains(t, wrong.body, "gateway.hcl:18:1")
	require.Contains(t, wrong.body, "Did you mean &#34;route&#34;?")
	require.NotContains(t, wrong.body, `value="write"`)
	require.Contains(t, typed(t, wrong), "rout \"x\"", "what was typed stays")

	done := post("write", next, was, seen)
	require.Contains(t, done.body, "It is written, and serves.")
	require.Equal(t, strings.ReplaceAll(next, "\r\n", "\n"), readFile(t, path), "with the line ends of the file")
	require.EqualValues(t, 300_000_000, s.engine.Current().Config.Routes[0].Price.Input)
	require.Contains(t, b.get("/portal/operator/audit").body, "configuration.edit")

	t.Run("two at once: the second sees the first's change before writing", func(t *testing.T) {
		mine := strings.Replace(typed(t, first), "output = 2", "output = 4", 1)
		second := post("write", mine, was, config.DigestOf(strings.ReplaceAll(mine, "\r\n", "\n")))
		require.Equal(t, http.StatusConflict, second.StatusCode)
		require.Contains(t, second.body, "What somebody else has changed meanwhile")
		require.Contains(t, second.body, "<ins>+    input  = 3\n")
		require.Contains(t, typed(t, second), "output = 4")
		require.NotContains(t, readFile(t, path), "output = 4")
	})
	t.Run("what serves is replaced by what the machine has, and nobody else's", func(t *testing.T) {
		require.Equal(t, http.StatusNotFound, b.get(candidatePath+"?file=/etc/passwd").StatusCode)
		require.Equal(t, http.StatusNotFound, b.post(candidatePath, "act", "plan", "file", "/etc/passwd").StatusCode)
		require.Equal(t, http.StatusRequestEntityTooLarge,
			b.post(candidatePath, "act", "plan", "text", strings.Repeat("#", maxCandidate)).StatusCode)
	})
	t.Run("only admins", func(t *testing.T) {
		for _, as := range []people.Operator{people.Support, people.ReadOnly} {
			other := s.operator(string(as)+"@example.com", as)
			require.Equal(t, http.StatusForbidden, other.get(candidatePath).StatusCode)
			require.Equal(t, http.StatusForbidden, other.post(candidatePath, "act", "write", "text", before, "was",
				config.DigestOf(readFile(t, path)), "seen", config.DigestOf(before)).StatusCode)
		}
		require.NotEqual(t, before, readFile(t, path))
	})
}

// TestCandidateIsNotWritten where nobody on the machine has allowed it, and names nothing of the machine then.
func TestCandidateIsNotWritten(t *testing.T) {
	t.Parallel()
	s, path := newFileSite(t, candidateHCL("false"), nil)
	before := readFile(t, path)
	b := s.operator("admin@example.com", people.Admin)
	next := strings.Replace(before, "input  = 1", "input  = 3", 1)
	shown := b.post(candidatePath, "act", "plan", "text", next, "was", config.DigestOf(before))
	require.Equal(t, http.StatusOK, shown.StatusCode)
	require.NotContains(t, shown.body, `value="write"`)
	require.Contains(t, shown.body, "gateway apply")
	forced := b.post(candidatePath, "act", "write", "text", next, "was", config.DigestOf(before), "seen",
		config.DigestOf(next))
	require.Equal(t, http.StatusForbidden, forced.StatusCode)
	require.Equal(t, before, readFile(t, path))
	attack := b.post(candidatePath, "act", "plan", "text", strings.Replace(before, `"m"`, `env("PATH")`, 1), "was",
		config.DigestOf(before), "replay", "yes")
	require.Equal(t, http.StatusUnprocessableEntity, attack.StatusCode)
	require.Contains(t, attack.body, "Not in what serves")
	require.NotContains(t, attack.body, os.Getenv("PATH"))
}

// TestCandidateIsConfirmed: who signed in long ago proves once more who they are, and what they wrote is not lost.
func TestCandidateIsConfirmed(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC).Unix())
	s, path := newFileSite(t, candidateHCL("true"), func() time.Time { return time.Unix(now.Load(), 0) })
	before := readFile(t, path)
	b := s.operator("admin@example.com", people.Admin)
	next := strings.Replace(before, "input  = 1", "input  = 3", 1)
	write := func() answer {
		return b.post(candidatePath, "act", "write", "text", next, "was", config.DigestOf(before), "seen",
			config.DigestOf(next))
	}
	now.Add(int64(11 * 60))
	asked := write()
	require.Equal(t, http.StatusForbidden, asked.StatusCode)
	require.Contains(t, asked.body, `href="/portal/confirm" target="_blank"`)
	require.Equal(t, next, strings.ReplaceAll(typed(t, asked), "\r\n", "\n"))
	require.Equal(t, before, readFile(t, path))
	require.Equal(t, http.StatusOK, b.post("/portal/confirm", "password", password).StatusCode)
	require.Contains(t, write().body, "It is written, and serves.")
	require.Equal(t, next, readFile(t, path))
}
