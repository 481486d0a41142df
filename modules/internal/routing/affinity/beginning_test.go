package affinity_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/plugins/llm"
)

// quoted is a text as a request has it, before anybody looks into it.
func quoted(text string) llm.Part {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return llm.Part{Text: llm.Quoted(string(b[1 : len(b)-1]))}
}

// parts is a conversation of a system's parts and a user's, in the form of JSON or plain.
func parts(plain bool, system, user []string, more ...llm.Message) *llm.Request {
	message := func(role llm.Role, texts []string) llm.Message {
		m := llm.Message{Role: role}
		for _, text := range texts {
			if plain {
				m.Parts = append(m.Parts, llm.Text(text))
			} else {
				m.Parts = append(m.Parts, quoted(text))
			}
		}
		return m
	}
	req := &llm.Request{Messages: []llm.Message{message(llm.RoleSystem, system), message(llm.RoleUser, user)}}
	req.Messages = append(req.Messages, more...)
	return req
}

// TestWhatChangesIsLeftOut proves GAP-134 for the key of a conversation: what clients are known to change from turn to
// turn is no part of it, and everything else is.
func TestWhatChangesIsLeftOut(t *testing.T) {
	t.Parallel()
	book := affinity.New(affinity.Options{})
	const rules = "You are an agent.\nObey."
	long := strings.Repeat("rule\n", 500)
	for name, turns := range map[string][2][2][]string{ // two turns, each with the parts of the system and of the user
		"GAP-134 a header": {{{"x-anthropic-billing-header: cc_version=2.1.1; cch=36ee5;", rules}, {"hi"}},
			{{"x-anthropic-billing-header: cc_version=2.1.1; cch=0aaa9;", rules}, {"hi"}}},
		"GAP-134 a header that comes and goes": {{{"x-anthropic-billing-header: cch=1;", rules}, {"hi"}},
			{{rules}, {"hi"}}},
		"GAP-134 a header in the same text": {{{"x-anthropic-billing-header: cch=1;\n" + rules}, {"hi"}},
			{{"x-anthropic-billing-header: cch=2;\n" + rules}, {"hi"}}},
		"GAP-134 a day": {{{rules + "\n\nToday's date: Mon Nov 23 2026"}, {"hi"}},
			{{rules + "\n\nToday's date: Tue Nov 24 2026\n"}, {"hi"}}},
		"GAP-134 a place": {{{long + "Today is 2026-11-23, and the current working directory is '/a'."}, {"hi"}},
			{{long + "Today is 2026-11-24, and the current working directory is '/b'."}, {"hi"}}},
		"GAP-134 a block of the environment": {
			{{rules, "Be brief.\n<env>\n  Working directory: /a\n  Platform: linux\n  Today's date: Mon\n</env>\n"}, {"hi"}},
			{{rules, "Be brief.\n<env>\r\n  Working directory: /b\r\n  Today's date: Tue\n</env>"}, {"hi"}}},
		"GAP-134 a reminder": {{{rules}, {"<system-reminder>\nfive todos\n</system-reminder>", "hi"}},
			{{rules}, {"<system-reminder>\nno todo\n</system-reminder>\n", "hi"}}},
		"GAP-134 reminders within": {{{rules}, {"<system-reminder>a</system-reminder>\nhi " +
			"<system-reminder>b</system-reminder><system-reminder>c</system-reminder>"}}, {{rules}, {"hi"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, plain := range []bool{false, true} {
				one, two := parts(plain, turns[0][0], turns[0][1]), parts(plain, turns[1][0], turns[1][1])
				affinity.Prepare(one)
				affinity.Prepare(two)
				require.Equal(t, book.Key("a", "max", one), book.Key("a", "max", two), "plain: %t", plain)
			}
		})
	}
	seen := map[affinity.Key]string{}
	for _, system := range []string{rules, rules + `\nToday's date: no line of its own`,
		rules + "\\\nToday rests", rules + "\nToday you rest.", "Today's date: is asked.\n" + rules,
		rules + " <env>", rules + "\nPlatforms differ."} {
		for _, user := range []string{"hi", "<system-reminder>hi", "hi</system-reminder>",
			"a<system-reminder>b</system-reminder>c", "a</system-reminder>b</system-reminder>",
			"x-anthropic-billing-header: cch=1;", "hi\nToday's date: Monday"} {
			req := parts(false, []string{system}, []string{user})
			affinity.Prepare(req)
			key := book.Key("a", "max", req)
			require.NotContains(t, seen, key, "%q %q", system, user)
			seen[key] = user
		}
	}
}

// TestPrepare proves GAP-134 for what goes upstream: a listed header is left out, and nothing else.
func TestPrepare(t *testing.T) {
	t.Parallel()
	const header = "x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=sdk-cli; cch=36ee5;"
	text := func(role llm.Role, texts ...string) llm.Message {
		m := llm.Message{Role: role}
		for _, one := range texts {
			m.Parts = append(m.Parts, quoted(one))
		}
		return m
	}
	for name, tt := range map[string]struct{ sent, want []llm.Message }{
		"a block": {[]llm.Message{text("system", header, "s"), text("user", "u")},
			[]llm.Message{text("system", "s"), text("user", "u")}},
		"all there is":   {[]llm.Message{text("system", header), text("user", "u")}, []llm.Message{text("user", "u")}},
		"a line":         {[]llm.Message{text("system", header+"\ns\nt", "v")}, []llm.Message{text("system", "s\nt", "v")}},
		"not the first":  {[]llm.Message{text("system", "s", header)}, []llm.Message{text("system", "s", header)}},
		"within":         {[]llm.Message{text("system", "s "+header)}, []llm.Message{text("system", "s "+header)}},
		"of a user":      {[]llm.Message{text("user", header)}, []llm.Message{text("user", header)}},
		"another":        {[]llm.Message{text("system", "x-other: 1")}, []llm.Message{text("system", "x-other: 1")}},
		"nothing":        {nil, nil},
		"no text at all": {[]llm.Message{{Role: "system"}}, []llm.Message{{Role: "system"}}},
	} {
		t.Run("GAP-134 "+name, func(t *testing.T) {
			t.Parallel()
			req := &llm.Request{Messages: tt.sent}
			affinity.Prepare(req)
			require.Len(t, req.Messages, len(tt.want))
			for i, m := range req.Messages {
				require.Equal(t, tt.want[i].Role, m.Role)
				require.Len(t, m.Parts, len(tt.want[i].Parts))
				for j, p := range m.Parts {
					require.Equal(t, tt.want[i].Parts[j].Text.String(), p.Text.String())
				}
			}
		})
	}
}

// TestLooseKey proves GAP-134 for beginnings that change in a way that nobody listed: the first kilobyte of what the
// user said is enough where the assistant has spoken, for one account and profile.
func TestLooseKey(t *testing.T) {
	t.Parallel()
	book := affinity.New(affinity.Options{})
	assistant := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("ok")}}
	kilobyte := strings.Repeat("0123456789abcdef", 64)
	key := func(account, profile, system string, user []string, more ...llm.Message) string {
		req := parts(true, []string{system}, user, more...)
		whole, k, ok := book.Keys(account, profile, req)
		require.Equal(t, book.Key(account, profile, req), whole)
		if !ok {
			return "none"
		}
		return fmt.Sprint(k)
	}
	same := key("a", "max", "s", []string{kilobyte + "x"}, assistant)
	require.Equal(t, same, key("a", "max", "another", []string{kilobyte + "y", "z"}, assistant))
	require.Equal(t, same, key("a", "max", "s", []string{kilobyte[:500], kilobyte[500:]}, assistant, assistant))
	require.Equal(t, same, key("a", "max", "s", []string{"<system-reminder>1</system-reminder>", kilobyte}, assistant))
	for _, other := range []string{
		key("b", "max", "s", []string{kilobyte}, assistant), key("a", "budget", "s", []string{kilobyte}, assistant),
		key("a", "max", "s", []string{"x" + kilobyte}, assistant), key("a", "max", "s", []string{kilobyte[1:]}, assistant),
		key("a", "max", "s", []string{kilobyte[:1023] + "!"}, assistant),
	} {
		require.NotEqual(t, same, other)
	}
	require.Equal(t, "none", key("a", "max", "s", []string{kilobyte}), "what begins alike need not go on alike")
	require.Equal(t, "none", key("a", "max", "s", []string{""}, assistant), "nor does what says nothing")
	require.NotEqual(t, same, fmt.Sprint(book.Key("a", "max", parts(true, []string{"s"}, []string{kilobyte}))))
	require.NotEqual(t, fmt.Sprint(book.Key("a", "max", talk("s", "hi"))),
		key("a", "max", "x", []string{told("system", "s", "user", "hi")}, assistant), "a loose one stands for no whole one")
}

// TestChangingLines proves GAP-134 for what an upstream is told to keep: the listed lines that end a system text are
// marked, and no other line.
func TestChangingLines(t *testing.T) {
	t.Parallel()
	const day = "Today's date: Mon"
	long := strings.Repeat("x", 1100)
	for text, want := range map[string]int{
		"": 0, "s": 0, "s\n": 0, "s\n\n": 0, "s\n" + day: 1, "s\n\n  " + day + "\n\n": 4, day: 1, day + "\ns": 0,
		"s\n<env>\nPlatform: x\n</env>": 3, "s " + day: 0, "s\n" + day + " " + long: 0, "s" + long + "\n" + day: 1,
		long + day: 0, "s\n\t": 0,
	} {
		for _, part := range []llm.Part{llm.Text(text), quoted(text)} {
			req := &llm.Request{Messages: []llm.Message{
				{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text(day), part}},
				{
					Role:  llm.RoleUser,
					Parts: []llm.Part{part},
				}, {Role: llm.RoleSystem}, {Role: llm.RoleSystem, Parts: []llm.Part{part}},
			}}
			affinity.Prepare(req)
			for i, lines := range []int{want, 0, 0, want} {
				require.EqualValues(t, lines, req.Messages[i].Changing, "%q, message %d", text, i)
			}
		}
	}
}
