package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/plugins/conformance"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// pluginTestView is the result of `gateway plugin test`.
type pluginTestView struct {
	OK     bool                 `json:"ok"`
	Plugin string               `json:"plugin"`
	Rules  []conformance.Result `json:"rules"` // in the order of their checks
}

// pluginTest is one run of `gateway plugin test`.
type pluginTest struct {
	output
	settings, model string
	rules           []string
	noUsage         bool
	limit           time.Duration
}

func pluginTestCommand() *cobra.Command {
	run := new(pluginTest)
	cmd := &cobra.Command{
		Use:   "test FILE|NAME",
		Short: "Checks a plugin, in any language, by all that the gateway relies on",
		Long: `Checks a plugin, in any language, by all that the gateway relies on: its start and its
end, its settings, its replies and what it reports of them. It needs no gateway. A
line for each rule says pass, FAIL or skip; what is broken comes with what was seen
and what to do, and the command exits with 1.

The plugin is a file, or a built-in one by its name. It makes some twenty requests of
its upstream: give the settings with which it can, as JSON or in a file (what is in
the configuration's config block; a secret there is safer in a file), and a model.`,
		Example: "  fareway gateway plugin test ./fareway-provider-hello\n" +
			"  fareway gateway plugin test ./fareway-provider-mine --settings settings.json --model small-1\n" +
			"  fareway gateway plugin test echo --rule signals,orphan",
		Args: exactly("FILE|NAME"),
		RunE: func(cmd *cobra.Command, args []string) error { return run.testPlugin(cmd, args[0]) },
	}
	cmd.Flags().StringVar(&run.settings, "settings", "",
		"the plugin's settings: a JSON object `{...}`, or the name of a file with one")
	cmd.Flags().StringVar(&run.model, "model", "test-model", "the upstream's model `NAME` to ask")
	cmd.Flags().StringSliceVar(&run.rules, "rule", nil, "check only the rule `ID`, with those that it builds on; may be "+
		"repeated")
	cmd.Flags().BoolVar(&run.noUsage, "no-usage", false, "the upstream never reports usage")
	cmd.Flags().DurationVar(&run.limit, "limit", conformance.DefaultLimit, "the time `LIMIT` for what should happen at "+
		"once, such as the start")
	run.addFlag(cmd)
	return cmd
}

func (run *pluginTest) testPlugin(cmd *cobra.Command, given string) error {
	plugin, err := findProgram(given)
	if err != nil {
		return err
	}
	values, err := readSettings(run.settings)
	if err != nil {
		return err
	}
	if run.limit <= 0 {
		return fmt.Errorf("--limit %s: write a time above 0, as in 10s", run.limit)
	}
	v := pluginTestView{OK: true, Plugin: plugin.name, Rules: []conformance.Result{}}
	count := make(map[conformance.Outcome]int)
	err = conformance.Check(cmd.Context(), conformance.Options{
		Command: plugin.argv, Env: plugin.env, Settings: values, NoUsage: run.noUsage, Limit: run.limit, Only: run.rules,
		Request: &llm.Request{Model: run.model, MaxTokens: 100, Messages: []llm.Message{
			{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("Hello, how are you?")}},
		}},
	}, func(r conformance.Result) bool {
		v.OK = v.OK && r.Outcome != conformance.Fail
		v.Rules = append(v.Rules, r)
		count[r.Outcome]++
		if !run.json { // as it comes
			printRule(screen(cmd), r)
		}
		return true
	})
	if err != nil {
		return err
	}
	err = run.print(cmd, v, func(w io.Writer) {
		fmt.Fprintf(w, "\n%s: %d kept, %d broken, %d skipped.\n", human.Count(len(v.Rules), "rule"),
			count[conformance.Pass], count[conformance.Fail], count[conformance.Skip])
	})
	if err == nil && !v.OK {
		err = exitSilently(cmd)
	}
	return err
}

// printRule writes a line, and below it what is wrong.
func printRule(w io.Writer, r conformance.Result) {
	word := string(r.Outcome)
	if r.Outcome == conformance.Fail {
		word = strings.ToUpper(word)
	}
	fmt.Fprintf(w, "%s  %-16s %s\n", word, r.Rule, r.Text)
	for _, more := range [...]string{r.Problem, r.Advice} {
		if more != "" {
			fmt.Fprintf(w, "%23s%s\n", "", strings.ReplaceAll(sentence(more), "\n", "\n"+strings.Repeat(" ", 23)))
		}
	}
}

// sentence makes one of what others say.
func sentence(text string) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "\uFFFD")
	if text == "" || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// readSettings reads a plugin's settings, given as JSON or as the name of a file. Its errors do not quote them.
func readSettings(given string) (settings.Values, error) {
	text, where := []byte(given), "--settings"
	if given == "" {
		return nil, nil
	}
	if !strings.HasPrefix(strings.TrimSpace(given), "{") {
		var err error
		if text, err = os.ReadFile(given); err != nil {
			return nil, fmt.Errorf("--settings: write a JSON object, as in '{\"base_url\": \"...\"}', or the name of a file: %w",
				err)
		}
		where = given
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		var at string
		if syntax, ok := err.(*json.SyntaxError); ok { //nolint:errorlint // it is not wrapped
			at = fmt.Sprintf(" (line %d)", 1+bytes.Count(text[:syntax.Offset], []byte("\n")))
		}
		return nil, fmt.Errorf("%s is no JSON object%s: settings are written {\"name\": value, ...}", where, at)
	}
	return text, nil
}
