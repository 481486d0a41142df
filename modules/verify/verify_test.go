package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/verify/testbed"
)

// deploymentHCL is a gateway as the starter's, slow enough to be looked at while it replies, and dear enough to
// use up whole credits, though not with every request.
const deploymentHCL = `
provider "echo" {
  plugin = "echo"
  start_timeout = "1m"
  config {
    delay = "3ms"
  }
}
route "echo" {
  provider       = "echo"
  model          = "small"
  context_window = 200000
  max_output     = 32768
  quality        = 0.5
  offers         = ["tools"]
  price {
    input  = 10
    output = 250
  }
}
` + unlimited

// TestContract runs the checks for any deployment against a real gateway: the whole of it, in its own process.
func TestContract(t *testing.T) {
	t.Parallel()
	o, err := testbed.Start(t.Context(), []byte(deploymentHCL), nil)
	require.NoError(t, err)
	t.Cleanup(o.Close)
	a, err := o.NewAccount(t.Context(), "verified", 100_000)
	require.NoError(t, err)
	limits := DefaultLimits
	limits.Credits = 1000
	target, err := NewTarget(o.URL, a.Key, limits)
	require.NoError(t, err)
	results, err := Run(t.Context(), target, Options{Ops: true, Quick: true})
	require.NoError(t, err)
	proven := make(map[string]bool)
	for _, id := range checkedIDs() {
		proven[id] = true
	}
	for _, r := range results {
		if !proven[r.ID] {
			require.False(t, r.Checked)
			require.Equal(t, "no check yet", r.Detail, r.ID)
			continue
		}
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			require.True(t, r.Checked, "%s: %s", r.Status, r.Detail)
		})
	}
	require.LessOrEqual(t, target.requests.Load(), DefaultLimits.Requests/2, "the bound leaves room for retries")
}

// TestUnseen: where a deployment's model calls no tool, --ops shows on a gateway of the run's own what calls are.
func TestUnseen(t *testing.T) {
	t.Parallel()
	g, err := startGate(t.Context(), standardGate)
	require.NoError(t, err)
	t.Cleanup(g.close)
	deaf, err := g.customer(t.Context(), 1000)
	require.NoError(t, err)
	deaf.answers(hello)
	status := func(o Options) map[string]Result {
		o.Areas = []string{"TOOL", "BILL"}
		results, err := Run(t.Context(), deaf.Target, o)
		require.NoError(t, err)
		byID := map[string]Result{}
		for _, r := range results {
			byID[r.ID] = r
		}
		return byID
	}
	without, with := status(Options{}), status(Options{Ops: true})
	for _, id := range []string{"TOOL-01", "TOOL-02", "TOOL-03", "TOOL-04", "BILL-02"} {
		require.Equal(t, Pending, without[id].Status, id)
		require.Equal(t, Pass, with[id].Status, "%s: %s", id, with[id].Detail)
		require.Contains(t, with[id].Detail, "seen on a gateway of the run's own, for at the deployment "+without[id].Detail)
	}
	require.Equal(t, Pass, with["BILL-04"].Status)
	require.Empty(t, with["BILL-04"].Detail, "seen at the deployment")
}

// checkedIDs are the clauses that some check proves.
func checkedIDs() []string {
	var ids []string
	for _, c := range apiChecks() {
		ids = append(ids, c.IDs...)
	}
	for _, c := range opsChecks() {
		ids = append(ids, strings.Fields(c.ids)...)
	}
	return ids
}

// TestRegister: the register is whole, and checks prove nothing else.
func TestRegister(t *testing.T) {
	t.Parallel()
	seen := map[string]Kind{}
	for _, c := range register {
		require.Regexp(t, `^[A-Z]+-[0-9]{2}$`, c.ID)
		require.NotContains(t, seen, c.ID)
		require.Contains(t, []Kind{API, Ops}, c.Kind, c.ID)
		require.Contains(t, []Status{Pending, Excluded}, c.Idle, c.ID)
		require.NotEmpty(t, c.Text, c.ID)
		seen[c.ID] = c.Kind
	}
	require.Len(t, seen, 466)
	proven := map[string]bool{}
	for _, c := range apiChecks() {
		require.NotEmpty(t, c.IDs, c.Does)
		for _, id := range c.IDs {
			require.Equal(t, API, seen[id], "%s of the check %q", id, c.Does)
			proven[id] = true
		}
	}
	for id, kind := range seen {
		require.Equal(t, kind == API, proven[id], "%s has a check", id)
	}
	for _, id := range checkedIDs() {
		require.Contains(t, seen, id)
	}
}

// TestBoard is the golden test of what is printed.
func TestBoard(t *testing.T) {
	t.Parallel()
	clause := func(id string, idle Status, text string) Clause {
		return Clause{ID: id, Kind: API, Idle: idle, Text: text}
	}
	found := func(status Status, detail string) finding {
		return finding{check: new(Check), status: status, detail: detail}
	}
	b := Board{Build: "https://api.example.com (Caddy)", Client: "fareway-verify/v1.2.3", Own: "fareway/v1.2.3",
		Results: []Result{
			clause("GEN-01", Pending, "Every path is relative.").result([]finding{found(Pass, "")}, ""),
			clause("GEN-02", Pending, "Three shapes | no more.").result([]finding{found(Pass, "seen from one key")}, ""),
			clause("STOP-07", Pending, "It is not returned.").result([]finding{found(Pass, ""), found(Pending, "no route"),
				found(Fail, "it was returned")}, ""),
			clause("STOP-08", Pending, "The longest counts.").result([]finding{found(Pass, ""),
				found(Pending, "no route with tools")}, ""),
			clause("CHAT-24", Excluded, "`seed` is refused.").result([]finding{found(Pass, "")}, ""),
			clause("CHAT-25", Excluded, "`logprobs` is refused.").result([]finding{found(Fail, "it got 200")}, ""),
			clause("CHAT-26", Excluded, "A penalty is refused.").result(nil, ""),
			Clause{ID: "SSE-25", Kind: Ops, Idle: Pending, Text: "Keep-alives."}.result(nil,
				"needs a gateway of its own (--ops)"),
		}}
	require.Equal(t, 2, b.Failed())
	for name, write := range map[string]func(*bytes.Buffer) error{
		"board.txt":  func(w *bytes.Buffer) error { return b.WriteText(w) },
		"board.md":   func(w *bytes.Buffer) error { return b.WriteMarkdown(w) },
		"board.json": func(w *bytes.Buffer) error { return b.WriteJSON(w) },
	} {
		var out bytes.Buffer
		require.NoError(t, write(&out))
		path := filepath.Join("testdata", name)
		if *update {
			require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), out.String(), "run the test with -update when this is as it should be")
	}
}

// run runs `gateway verify ARGS` in this process.
func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := newCommand()
	var out, told bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&told)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), told.String(), err
}

const testKey = "fwk_the-key-of-this-test"

// TestCommand runs the command against a gateway that keeps hardly any clause.
func TestCommand(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "Stand-in/7")
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/v1/account" {
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprintf(w, `{"error":{"message":%q,"code":"teapot"}}`, r.Header.Get("Authorization"))
			return
		}
		fmt.Fprint(w, `{"tenant":{"id":"a","name":"b","key_mode":"managed"},"key":{"name":"k","last4":"test"},
			"credits":{"balance_credits":5,"reserved_credits":0,"available_credits":5,"monthly_allotment_credits":0,
			"current_period_end":null,"accrued_usage_microcents":0}}`)
	}))
	t.Cleanup(server.Close)
	keyFile := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(keyFile, []byte(testKey+"\n"), 0o600))
	base := []string{"--base-url", server.URL, "--key-file", keyFile}

	t.Run("VER-05 a status for each clause", func(t *testing.T) {
		t.Parallel()
		out, told, err := run(t, append(base, "--json")...)
		require.ErrorContains(t, err, "does not keep the contract")
		require.Contains(t, told, "at most 2000 requests")
		require.False(t, strings.Contains(out+told, testKey[:len(testKey)-1]),
			"the key is never printed, though the gateway does")
		require.Contains(t, out, "[the key]")
		var all []map[string]any
		require.NoError(t, json.Unmarshal([]byte(out), &all))
		require.Len(t, all, len(register))
		statuses := map[any]int{}
		for i, r := range all {
			require.Equal(t, register[i].ID, r["id"])
			require.Equal(t, register[i].Text, r["clause"])
			require.Contains(t, r, "detail")
			require.Contains(t, r["build"], server.URL)
			require.Equal(t, userAgent(), r["client"])
			statuses[r["status"]]++
		}
		require.Len(t, statuses, 4, "each of the four is there")
		require.Positive(t, statuses["FAIL"])
	})
	t.Run("VER-05 build and client", func(t *testing.T) {
		t.Parallel()
		for _, flag := range []string{"--json=false", "--markdown"} {
			out, _, err := run(t, append(base, flag, "--area", "ACCT")...)
			require.Error(t, err, "GET /account is no 404")
			require.Contains(t, out, server.URL+" (Stand-in/7)")
			require.Contains(t, out, userAgent())
			require.NotContains(t, out, "STOP-01")
		}
	})
	t.Run("bounded", func(t *testing.T) {
		t.Parallel()
		out, _, err := run(t, append(base, "--requests", "3", "--area", "MODEL")...)
		require.Error(t, err)
		require.Contains(t, out, "the run has sent all of its 3 requests")
	})
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no URL":      {[]string{"--key", testKey}, "write scheme and host"},
		"a path":      {[]string{"--base-url", server.URL + "/v1", "--key", testKey}, "leave the path away"},
		"no key":      {[]string{"--base-url", server.URL}, "--key-file"},
		"no file":     {[]string{"--base-url", server.URL, "--key-file", keyFile + "s"}, "reading the API key"},
		"no area":     {append(base, "--area", "STOPS"), "there are GEN, MODEL"},
		"no requests": {append(base, "--requests", "0"), "--requests"},
		"nobody":      {[]string{"--base-url", "http://127.0.0.1:1", "--key", testKey}, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, told, err := run(t, tc.args...)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, out+told+err.Error(), testKey)
		})
	}
	t.Run("another service", func(t *testing.T) {
		t.Parallel()
		other := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(other.Close)
		_, _, err := run(t, "--base-url", other.URL, "--key", testKey)
		require.ErrorContains(t, err, "is no such gateway")
		require.False(t, strings.Contains(err.Error(), testKey))
	})
}
