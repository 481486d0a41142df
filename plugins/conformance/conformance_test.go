package conformance

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// options are those of a provider with a flaw.
func options(t *testing.T, flaw string) Options {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return Options{
		Command:  []string{self, "play", flaw},
		Settings: settings.Values(`{"base_url": "http://x", "api_key": "k", "retry": {"token": ["t"]}}`),
		Limit:    time.Minute, // a busy machine is no flaw
	}
}

func check(t *testing.T, o Options) (results []Result) {
	t.Helper()
	require.NoError(t, Check(t.Context(), o, func(r Result) bool { results = append(results, r); return true }))
	return results
}

// The conformance suite against a binary in any language.
func TestAProviderByTheDocumentPassesEveryRule(t *testing.T) {
	t.Parallel()
	results := check(t, options(t, "none"))
	require.Len(t, results, len(RuleIDs()))
	for i, r := range results {
		want := Pass
		if r.Rule == "carried" || r.Rule == "optional" {
			want = Skip // it claims none
		}
		require.Equal(t, want, r.Outcome, "%s: %s", r.Rule, r.Problem)
		require.Equal(t, RuleIDs()[i], r.Rule)
		require.NotContains(t, r.Text, "LIMIT")
		require.Empty(t, r.Advice)
	}
}

// What is no flaw: rubbish on stdout after the handshake, events of a later version, and the like.
func TestWhatIsNoFlawPasses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		oddity, rule string
		want         Outcome
	}{
		{"prints after the handshake", "reply", Pass}, {"knows more events", "reply", Pass}, {"refers", "reply", Pass},
		{"caches", "usage-disjoint", Pass}, {"cancels", "optional", Pass}, {"lists models", "optional", Pass},
		{"has no secrets", "secrets", Skip},
		{"only screens", "capabilities", Pass}, {"only screens", "reply", Skip}, {"only screens", "optional", Pass},
		{"only predicts", "capabilities", Pass}, {"only predicts", "reply", Skip}, {"only predicts", "optional", Pass},
	} {
		t.Run(test.oddity, func(t *testing.T) {
			t.Parallel()
			o := options(t, test.oddity)
			o.Only, o.alone = []string{test.rule}, true
			results := check(t, o)
			require.Len(t, results, 1)
			require.Equal(t, test.want, results[0].Outcome, results[0].Problem)
		})
	}
}

// Each broken rule is named.
func TestEachFlawIsNoticed(t *testing.T) {
	t.Parallel()
	noticed := make(map[string]bool)
	for _, test := range []struct{ rule, flaw, want string }{
		{"by-hand", "by hand it hangs", "it goes on for longer than"},
		{"by-hand", "by hand it is content", "status 0"},
		{"by-hand", "by hand it is silent", "it says nothing"},
		{"handshake", "prints first", `it printed "starting up" on stdout before the handshake`},
		{"handshake", "dies", "it ended (exit status 3) before the handshake; its last words: out of paper"},
		{"handshake", "speaks TCP", `it listens on "tcp"`},
		{"handshake", "speaks net/rpc", "must be grpc"},
		{"handshake", "has no certificate", "its certificate, is missing"},
		{"handshake", "sends a PEM certificate", "base64"},
		{"handshake", "its certificate is of another", "localhost"},
		{"handshake", "its socket is elsewhere", "PLUGIN_UNIX_SOCKET_DIR"},
		{"handshake", "has no socket", "there is no socket at"},
		{"handshake", "is of another version", "version 99"},
		{"versions", "chooses the newest version", "version 3"},
		{"mutual-tls", "answers anybody", "it answers a caller with"},
		{"mutual-tls", "answers any certificate", "with another certificate"},
		{"health-service", "has no health", "NotFound"},
		{"health-service", "is not serving", "it is NOT_SERVING"},
		{"signals", "dies of SIGTERM", "SIGTERM ended it (signal: terminated)"},
		{"signals", "ends by SIGINT", "SIGINT ended it"},
		{"shutdown", "has no Shutdown", "Unimplemented"},
		{"shutdown", "goes on after Shutdown", "it goes on for longer than"},
		{"orphan", "outlives its gateway", "it goes on for longer than"},
		{"describe", "cannot describe itself", "not configured"},
		{"describe", "has no name", "it has no name"},
		{"describe", "is another each time", "the second answer is another"},
		{"schema", "has a setting of a wrong name", `"retry.Token-1"`},
		{"schema", "has a setting of an unknown type", `setting time_limit has the type "int"`},
		{"schema", "has a setting twice", "setting retry is there twice"},
		{"documented", "has a setting without a doc", "setting base_url has no doc"},
		{"documented", "has a block without a doc", "block retry has no doc"},
		{"documented", "has a setting without its default", "time_limit does not say its default"},
		{"capabilities", "is told of attempts without cause", "attempted and not endpoint"},
		{"capabilities", "claims to count", "it claims CountTokens and does not serve it"},
		{"capabilities", "counts in secret", "it serves CountTokens and does not claim it"},
		{"unconfigured", "answers before its settings", "it was answered"},
		{"unconfigured", "breaks without settings", "status other than OK"},
		{"unconfigured", "blames the upstream for its settings", "of the kind upstream"},
		{"large", "takes small messages", "larger than max"},
		{"setting-unknown", "takes any setting", "takes the setting no_such_setting"},
		{"setting-unknown", "does not name a wrong setting", "does not name the setting"},
		{"configure", "refuses its settings", "setting base_url must be polite"},
		{"configure", "is unwell", "feeling unwell"},
		{"secrets", "logs its settings", "stderr repeats a secret setting: settings: map[api_key:[the secret]"},
		{"secrets", "prints its settings", "stdout repeats a secret setting"},
		{"secrets", "repeats its settings", "the error of Configure repeats"},
		{"secrets", "repeats a setting of a wrong type", "the error of Configure repeats"},
		{"secrets", "says its key is ill", "the error of Health repeats"},
		{"secrets", "repeats its key in a failure", "the failure of an attempt repeats"},
		{"unknown-fields", "refuses what it does not know", "what is that?"},
		{"unknown-fields", "refuses what it does not know in messages", "what is that?"},
		{"reply", "speaks before accepted", "before accepted"},
		{"reply", "never finishes", "without a finish and without a failure"},
		{"reply", "finishes twice", "after the reply's finish"},
		{"reply", "fails after its finish", "an event came after the last one"},
		{"reply", "speaks after its failure", "an event came after the last one"},
		{"reply", "ends with a status", "a status other than OK"},
		{"reply", "fails", "it ended with a failure (capacity): slow down"},
		{"reply", "refers twice", "a reference came twice"},
		{"reply", "refers in a sentence", "is not 1 to 256 signs of ASCII"},
		{"reply", "says nothing", "it has no text"},
		{"usage", "reports no usage", "no usage of both"},
		{"usage", "reports half of its usage", "no usage of both"},
		{"usage", "takes usage back", "input goes down from 10 to 9"},
		{"usage", "reasons more than it writes", "reasoning is more than output"},
		{"usage", "writes without output", "no output tokens"},
		{"usage", "estimates unasked", "estimate_usage did not ask"},
		{"usage-disjoint", "counts what is cached twice", "10 tokens, and 18 when 8 more of them are cached"},
		{"carried", "has an endpoint to nowhere", "connect"},
		{"carried", "knows no endpoint", "who knows"},
		{"everything", "breaks on tools", "tools?"},
		{"concurrent", "answers one at a time", "busy"},
		{"abandoned", "dies of who leaves", "Unavailable"},
		{"optional", "counts nothing", "CountTokens counts 0"},
		{"optional", "fails to count", "lost count"},
		{"optional", "invents receipts", "never made: leave those out"},
		{"optional", "fails on receipts", "the archive burned down"},
		{"optional", "has a model twice", `the model "m" is there twice`},
		{"optional", "has a model without a name", "a model has no id"},
		{"optional", "has a model of no size", "a negative size"},
		{"optional", "says nothing of a text", "none of allow, flag and block"},
		{"optional", "repeats a text", "a category of the verdict is no word"},
		{"optional", "predicts too little", "there are 0 predictions for 1 requests"},
		{"optional", "predicts two routes of three", "a prediction has 2 qualities for 3 routes"},
		{"optional", "predicts above 1", "a quality is neither from 0 to 1 nor -1"},
		{"optional", "is at a loss", "Predict: "},
		{"optional", "is lost for words", "what was that?"},
		{"optional", "cannot cancel", "no such attempt"},
		{"optional", "cancels with another failure", "and not CANCELED: what happened?"},
	} {
		noticed[test.rule] = true
		t.Run(test.rule+" "+test.flaw, func(t *testing.T) {
			t.Parallel()
			o := options(t, test.flaw)
			o.Only, o.alone = []string{test.rule}, true
			if strings.HasPrefix(test.want, "it goes on") { // for ever
				o.ending = 100 * time.Millisecond
			}
			results := check(t, o)
			require.Len(t, results, 1)
			require.Equal(t, Fail, results[0].Outcome, results[0].Problem)
			require.Contains(t, results[0].Problem, test.want)
			require.NotEmpty(t, results[0].Advice)
		})
	}
	for _, id := range RuleIDs() {
		require.True(t, noticed[id], "no flaw is here for the rule %s", id)
	}
}

func TestAProviderThatNeverSpeaksIsGivenUp(t *testing.T) {
	t.Parallel()
	o := options(t, "never speaks")
	o.Only, o.Limit = []string{"handshake"}, 100*time.Millisecond
	results := check(t, o)
	require.Equal(t, Fail, results[0].Outcome)
	require.Contains(t, results[0].Problem, "it printed no line: it took longer than 100ms")
	require.Contains(t, results[0].Text, "within 100ms")
}

// A provider that only screens is one.
func TestAProviderThatOnlyScreensPassesWhatAppliesToIt(t *testing.T) {
	t.Parallel()
	for _, r := range check(t, options(t, "only screens")) {
		want := Pass
		switch r.Rule {
		case "reply", "usage", "usage-disjoint", "carried", "everything", "concurrent", "abandoned":
			want = Skip
		}
		require.Equal(t, want, r.Outcome, "%s: %s", r.Rule, r.Problem)
	}
}

func TestRulesThatBuildOnABrokenOneAreSkipped(t *testing.T) {
	t.Parallel()
	o := options(t, "refuses its settings")
	o.Only = []string{"usage"}
	outcomes := make(map[string]Outcome)
	var last Result
	for _, r := range check(t, o) {
		outcomes[r.Rule], last = r.Outcome, r
	}
	want := map[string]Outcome{"handshake": Pass, "describe": Pass, "configure": Fail, "reply": Skip, "usage": Skip}
	require.Equal(t, want, outcomes)
	require.Equal(t, "it builds on the rule reply", last.Problem)
}

func TestARunThatCannotBegin(t *testing.T) {
	t.Parallel()
	each := func(Result) bool { t.Error("nothing is checked"); return true }
	o := options(t, "none")
	o.Only = []string{"usages"}
	require.ErrorContains(t, Check(t.Context(), o, each), `there is no rule "usages": there are by-hand, handshake`)
	require.ErrorContains(t, Check(t.Context(), Options{}, each), "name its program")
	o = options(t, "none")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Check(ctx, o, each), context.Canceled)
	o.Command = []string{t.TempDir() + "/missing"}
	o.Only = []string{"handshake"}
	results := check(t, o)
	require.Contains(t, results[0].Problem, "no such file")
	require.Contains(t, results[0].Problem, "check that it is executable")
}

func TestARunEndsWhenItsReaderHasEnough(t *testing.T) {
	t.Parallel()
	count := 0
	require.NoError(t, Check(t.Context(), options(t, "none"), func(Result) bool { count++; return false }))
	require.Equal(t, 1, count)
}

func TestAnUpstreamThatReportsNoUsage(t *testing.T) {
	t.Parallel()
	o := options(t, "reports no usage")
	o.NoUsage, o.Only = true, []string{"usage-disjoint"}
	results := check(t, o)
	for _, r := range results[len(results)-2:] {
		require.Equal(t, Skip, r.Outcome)
		require.Equal(t, "this upstream reports no usage", r.Problem)
	}
}

// The gateway charges replies of an endpoint by the same usage.
func TestRepliesByAnEndpointAreMetered(t *testing.T) {
	t.Parallel()
	const usage = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":` +
		`{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}` + "\n\n"
	for _, test := range []struct {
		name, usage string
		noUsage     bool
		want        Outcome
	}{
		{"metered", usage, false, Pass}, {"not metered", "", false, Fail}, {"never metered", "", true, Pass},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				const chunk = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[` +
					`{"index":0,"delta":%s,"finish_reason":%s}]}` + "\n\n"
				fmt.Fprintf(w, chunk, `{"role":"assistant","content":"hello"}`, "null")
				fmt.Fprintf(w, chunk, `{}`, `"stop"`)
				fmt.Fprint(w, test.usage, "data: [DONE]\n\n")
			}))
			t.Cleanup(service.Close)
			o := options(t, "has an endpoint")
			o.Only, o.alone, o.NoUsage = []string{"carried"}, true, test.noUsage
			o.Settings = settings.Values(fmt.Sprintf(`{"base_url": %q}`, service.URL))
			results := check(t, o)
			require.Equal(t, test.want, results[0].Outcome, results[0].Problem)
			if test.want == Fail {
				require.Contains(t, results[0].Problem, "no usage of both input and output")
			}
		})
	}
}
