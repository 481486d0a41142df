package echo_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/echo"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest"
)

// TestMain makes this test binary the plugin when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "run-plugin" {
		provider.Serve(echo.New())
		return
	}
	os.Exit(m.Run())
}

func TestContract(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		providertest.Run(t, echo.New, providertest.Options{})
	})
	t.Run("as a process", func(t *testing.T) {
		t.Parallel()
		providertest.Run(t, echo.New, providertest.Options{
			Command:  []string{self, "run-plugin"},
			Settings: settings.Values(`{"reasoning": true, "delay": "1ms"}`),
		})
	})
}

// configured makes an echo with settings.
func configured(t require.TestingT, values string) provider.Provider {
	p := echo.New()
	require.NoError(t, provider.DecodeSettings(settings.Values(values), p.(provider.Configurable).Settings()))
	require.NoError(t, p.(provider.Starter).Start(context.Background()))
	return p
}

// answer is the whole reply to a request.
func answer(t require.TestingT, p provider.Provider, req *llm.Request) *llm.Reply {
	var r llm.Reply
	require.NoError(t, p.Generate(context.Background(), req, func(ev llm.Event) error {
		r.Add(ev)
		return nil
	}))
	r.Close()
	return &r
}

func user(text string) llm.Message {
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(text)}}
}

func say(messages ...llm.Message) *llm.Request {
	return &llm.Request{Attempt: "a1", Model: "m", MaxTokens: 1000, Messages: messages}
}

var weather = llm.Tool{Name: "weather", Description: "Tells the weather.", Schema: []byte(`{"type":"object"}`)}

func TestReplies(t *testing.T) {
	t.Parallel()
	toolTurn := []llm.Message{
		user("call weather"),
		{Role: llm.RoleAssistant, Parts: []llm.Part{
			{Call: &llm.ToolCall{ID: "1", Name: "weather"}}, {Call: &llm.ToolCall{ID: "2", Name: "clock"}},
		}},
		{Role: llm.RoleTool, CallID: "1", Parts: []llm.Part{llm.Text("sunny")}},
		{Role: llm.RoleTool, CallID: "2", IsError: true, Parts: []llm.Part{llm.Text("broken")}},
	}
	for _, test := range []struct {
		name string
		req  *llm.Request
		want string
	}{
		{"text", say(user("good morning")), "You said: good morning"},
		{"the last user text counts", say(user("one"), llm.Message{Role: llm.RoleAssistant}, user("two")), "You said: two"},
		{"nothing", say(), "Hello. Say something, and I will repeat it."},
		{"a system message only", say(llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text("be kind")}}),
			"Hello. Say something, and I will repeat it."},
		{"tool results", say(toolTurn...), "The tool weather answered: sunny\nThe tool clock failed: broken"},
		{"a call without tools is text", say(user("call weather {}")), "You said: call weather {}"},
		{"JSON", &llm.Request{Messages: []llm.Message{user("hi")}, Format: &llm.Format{Kind: llm.FormatJSONObject}},
			`{"reply":"You said: hi"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := answer(t, echo.New(), test.req)
			require.Equal(t, test.want, r.Text())
			require.Equal(t, llm.FinishStop, r.Finish)
		})
	}
}

func TestToolCalls(t *testing.T) {
	t.Parallel()
	call := func(name, arguments string) llm.ToolCall {
		return llm.ToolCall{Name: name, Arguments: llm.Plain(arguments)}
	}
	for _, test := range []struct {
		name   string
		prompt string
		choice llm.ToolChoice
		want   []llm.ToolCall
	}{
		{"one", `call weather {"city": "Rome"}`, llm.ToolChoice{}, []llm.ToolCall{call("weather", `{"city": "Rome"}`)}},
		{"parallel", "Please:\ncall weather {\"city\":\"Rome\"}\ncall weather", llm.ToolChoice{},
			[]llm.ToolCall{call("weather", `{"city":"Rome"}`), call("weather", "{}")}},
		{"a tool that is not offered", "call clock", llm.ToolChoice{}, nil},
		{"arguments that are no object", "call weather [1", llm.ToolChoice{}, nil},
		{"none allowed", "call weather", llm.ToolChoice{Mode: llm.ToolNone}, nil},
		{"required", "hello", llm.ToolChoice{Mode: llm.ToolRequired}, []llm.ToolCall{call("weather", "{}")}},
		{"named", "hello", llm.ToolChoice{Mode: llm.ToolNamed, Name: "weather"}, []llm.ToolCall{call("weather", "{}")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			req := say(user(test.prompt))
			req.Tools, req.ToolChoice = []llm.Tool{weather}, test.choice
			r := answer(t, echo.New(), req)
			var got []llm.ToolCall
			ids := make(map[string]bool)
			for _, item := range r.Items {
				if item.Call != nil {
					ids[item.Call.ID] = true
					got = append(got, call(item.Call.Name, item.Call.Arguments.String()))
				}
			}
			require.Equal(t, test.want, got)
			require.Len(t, ids, len(got), "ids differ")
			require.Equal(t, len(got) > 0, r.Finish == llm.FinishToolCalls)
		})
	}
}

func TestUsageIsExact(t *testing.T) {
	t.Parallel()
	req := say(user("three little words"))
	req.Tools = []llm.Tool{weather}
	r := answer(t, echo.New(), req)
	// Prompt: 3, and the tool's name, description and schema: 1 + 3 + 1. Reply: You said: three little words.
	require.Equal(t, &llm.Usage{Input: llm.Count(8), Output: llm.Count(5), Reasoning: llm.Count(0)}, r.Usage)
	n, err := echo.New().(provider.TokenCounter).CountTokens(t.Context(), req)
	require.NoError(t, err)
	require.EqualValues(t, 8, n)

	r = answer(t, configured(t, `{"reasoning": true}`), say(user("hi")))
	require.EqualValues(t, 14, llm.Tokens(r.Usage.Output), "11 words of reasoning and 3 of text")
}

func TestMaxTokensIsObeyed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		req := say(user(text))
		req.MaxTokens = rapid.Int64Range(1, 20).Draw(t, "max_tokens")
		r := answer(t, echo.New(), req)
		whole := answer(t, echo.New(), say(user(text)))
		used := int64(len(strings.Fields(r.Text())))
		require.Equal(t, used, llm.Tokens(r.Usage.Output))
		require.LessOrEqual(t, used, req.MaxTokens)
		require.True(t, strings.HasPrefix(whole.Text(), r.Text()))
		cut := llm.Tokens(whole.Usage.Output) > req.MaxTokens
		require.Equal(t, cut, r.Finish == llm.FinishLength)
	})
}

func TestPiecesJoinToTheReply(t *testing.T) {
	t.Parallel()
	p := configured(t, `{"piece": 3}`)
	var pieces []string
	require.NoError(t, p.Generate(t.Context(), say(user("grüße")), func(ev llm.Event) error {
		if ev.Kind == llm.EventText {
			pieces = append(pieces, ev.Text)
		}
		return nil
	}))
	require.Equal(t, []string{"You", " sa", "id:", " gr", "üße"}, pieces)
}

func TestStopSequencesAreHonouredWhenAsked(t *testing.T) {
	t.Parallel()
	req := say(user("one two three"))
	req.Stop = []string{"three", "two"}
	require.Equal(t, "You said: one two three", answer(t, echo.New(), req).Text())
	r := answer(t, configured(t, `{"honour_stop": true}`), req)
	require.Equal(t, "You said: one ", r.Text())
	require.Equal(t, llm.FinishStop, r.Finish)
	require.EqualValues(t, 3, llm.Tokens(r.Usage.Output))
}

func TestItIsAsSlowAsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, `{"first_delay": "2s", "delay": "1s", "piece": 5}`)
		begin := time.Now()
		var at []time.Duration
		require.NoError(t, p.Generate(t.Context(), say(user("x")), func(ev llm.Event) error {
			if ev.Kind == llm.EventAccepted || ev.Kind == llm.EventText {
				at = append(at, time.Since(begin))
			}
			return nil
		}))
		require.Equal(t, []time.Duration{0, 2 * time.Second, 3 * time.Second, 4 * time.Second}, at)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := p.Generate(ctx, say(user("x")), func(llm.Event) error { return nil })
		require.True(t, errors.Is(err, context.DeadlineExceeded))
	})
}

func TestStartedByHandItSaysWhatItIs(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), self, "run-plugin").CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Contains(t, string(out), "This is a Fareway provider plugin")
	require.Contains(t, string(out), "plugin_dir")
}

func TestBadSettingsAreNamed(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		`{"piece": 0}`:           "piece",
		`{"delay": "-1s"}`:       "delay",
		`{"first_delay": "-1s"}`: "first_delay",
	} {
		p := echo.New()
		require.NoError(t, provider.DecodeSettings(settings.Values(values), p.(provider.Configurable).Settings()))
		require.ErrorContains(t, p.(provider.Starter).Start(t.Context()), want)
	}
}
