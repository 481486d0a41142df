package ollama_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/ollama"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

const key = "geheim-zq11"

// at are settings for a server at another address.
func at(t *testing.T, address string, more map[string]any) json.RawMessage {
	t.Helper()
	return providertest.Settings(t, map[string]any{"base_url": address + "/"}, more)
}

func start(t *testing.T, values json.RawMessage) provider.Provider {
	t.Helper()
	return providertest.Start(t, ollama.New, values)
}

// reply is what an attempt came to.
type reply struct {
	*providertest.Reply
	err *llm.Error
}

// generate makes one attempt, whose error shows no secret.
func generate(t *testing.T, p provider.Provider, req *llm.Request) *reply {
	t.Helper()
	got, err := providertest.Generate(t, p, req)
	r := &reply{Reply: got}
	if err != nil {
		require.ErrorAs(t, err, &r.err)
		require.NotContains(t, err.Error(), "zq11")
	}
	return r
}

// body is the body of the n-th chat.
func body(t *testing.T, s *upstream.Server, n int64) string {
	t.Helper()
	req, err := s.Request(providertest.Context(t), n)
	require.NoError(t, err)
	return string(req.Body)
}

func TestContract(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{APIKey: key})
	providertest.Run(t, ollama.New,
		providertest.Options{Settings: at(t, s.URL(), map[string]any{"api_key": key + "\n"})})
}

// TestConversations proves the "prefixes stay byte for byte".
func TestConversations(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{Cache: true})
	providertest.RunConversations(t, ollama.New, at(t, s.URL(), map[string]any{"num_ctx": 100000}), s)
}

func TestRequest(t *testing.T) {
	t.Parallel()
	temperature := 0.5
	full := providertest.Ask("one", "two", "three")
	full.Messages = append([]llm.Message{{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text("a"), llm.Text("b")}}},
		full.Messages...)
	full.Messages = append(full.Messages,
		llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{
			{Call: &llm.ToolCall{ID: "c1", Name: "f", Arguments: llm.Plain(`{"a": 1}`)}},
			{Call: &llm.ToolCall{ID: "c2", Name: "g", Arguments: llm.Plain(`{"cut`)}}}},
		llm.Message{Role: llm.RoleTool, CallID: "c2", IsError: true, Parts: []llm.Part{llm.Text("r2")}},
		llm.Message{Role: llm.RoleTool, CallID: "c1", Parts: []llm.Part{llm.Text("r1")}})
	full.Tools = []llm.Tool{{Name: "f", Description: "d", Schema: json.RawMessage(`{"type":"object"}`)},
		{Name: "g", Schema: json.RawMessage(`{"type":"object"}`)}}
	full.Stop, full.Temperature = []string{"X", "Y"}, &temperature
	said := func(role, text string) string { return `{"role":"` + role + `","content":"` + text + `"}` }
	const f = `{"type":"function","function":{"name":"f","description":"d",` +
		`"parameters":{"type":"object","properties":{}}}}`
	const g = `{"type":"function","function":{"name":"g","description":"","parameters":{"type":"object","properties":{}}}}`
	messages := `"messages":[` + said(
		"system",
		`a\nb`,
	) + "," + said(
		"user",
		"one",
	) + "," + said(
		"assistant",
		"two",
	) + "," +
		said(
			"user",
			"three",
		) + `,{"role":"assistant","content":"","tool_calls":[` +
		`{"id":"c1","function":{"name":"f","arguments":{"a": 1}}},{"id":"c2","function":{"name":"g","arguments":{}}}]},` +
		`{"role":"tool","content":"Error: the tool failed.\nr2","tool_name":"g","tool_call_id":"c2"},` +
		`{"role":"tool","content":"r1","tool_name":"f","tool_call_id":"c1"}]`
	const hold = `,"truncate":false,"shift":false,"stream":`
	for name, c := range map[string]struct {
		settings map[string]any
		change   func(*llm.Request)
		want     string
	}{
		"everything": {nil, func(*llm.Request) {}, `"tools":[` + f + "," + g + "]," + messages + hold +
			`true,"think":true,"options":{"num_predict":100,"num_ctx":8192,"temperature":0.5,"stop":["X","Y"]}}`},
		"settings": {map[string]any{"num_ctx": 2048, "keep_alive": "10m", "think": "low"}, func(r *llm.Request) {
			r.Unsupported, r.Whole = []string{"stop", "temperature"}, true
			r.Format = &llm.Format{Kind: llm.FormatJSONSchema, Schema: json.RawMessage(`{"type":"object"}`)}
		}, `"tools":[` + f + "," + g + "]," + messages + hold +
			`false,"think":"low","keep_alive":"10m","format":{"type":"object"},` +
			`"options":{"num_predict":100,"num_ctx":2048}}`},
		"others": {map[string]any{"keep_alive": "forever", "think": "off", "always_stream": true}, func(r *llm.Request) {
			r.Whole, r.Stop, r.Temperature, r.Window = true, nil, nil, 0
			r.ToolChoice.Mode = llm.ToolNone
			r.Format = &llm.Format{Kind: llm.FormatJSONObject}
		}, messages + hold + `true,"think":false,"keep_alive":-1,"format":"json","options":{"num_predict":100}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.Start(t, upstream.Options{})
			req := *full
			c.change(&req)
			require.Nil(t, generate(t, start(t, at(t, s.URL(), c.settings)), &req).err)
			require.Equal(t, `{"model":"m",`+c.want, body(t, s, 1))
		})
	}
	t.Run("GAP-127 a call that is demanded", func(t *testing.T) {
		t.Parallel()
		s := upstream.Start(t, upstream.Options{})
		for _, choice := range []llm.ToolChoice{{Mode: llm.ToolRequired}, {Mode: llm.ToolNamed, Name: "g"}} {
			req := *full
			req.ToolChoice = choice
			require.Equal(t, llm.ErrUnfit, llm.KindOf(generate(t, start(t, at(t, s.URL(), nil)), &req).err),
				"Ollama would drop it without a word")
		}
	})
	s := upstream.Start(t, upstream.Options{})
	for _, wrong := range []func(*llm.Request){
		func(r *llm.Request) { r.Messages[0].Role = "robot" },
		func(r *llm.Request) { r.ToolChoice.Mode = "sometimes" },
	} {
		req := providertest.Ask("x")
		wrong(req)
		require.Equal(t, llm.ErrRejected, generate(t, start(t, at(t, s.URL(), nil)), req).err.Kind)
	}
}

// TestRoom: the window of the route really holds.
func TestRoom(t *testing.T) {
	t.Parallel()
	room := func(s *upstream.Server, n int64) int64 {
		req, err := s.Request(providertest.Context(t), n)
		require.NoError(t, err)
		return req.Room
	}
	window := func(n int64) *llm.Request {
		req := providertest.Ask("x")
		req.Window = n
		return req
	}
	t.Run("it only grows, for each change loads the model anew, up to what the model was trained for", func(t *testing.T) {
		t.Parallel()
		s := upstream.Start(t, upstream.Options{Local: map[string]upstream.Local{"m": {Context: 32768}}})
		p := start(t, at(t, s.URL(), nil))
		for i, c := range []struct{ window, room int64 }{{8192, 8192}, {4096, 8192}, {16384, 16384}, {65536, 32768},
			{8192, 32768}} {
			require.Nil(t, generate(t, p, window(c.window)).err)
			require.Equal(t, c.room, room(s, int64(i+1)))
		}
	})
	t.Run("the setting wins, and is no more than the model was trained for", func(t *testing.T) {
		t.Parallel()
		s := upstream.Start(t, upstream.Options{Local: map[string]upstream.Local{"m": {Context: 3000}, "n": {}}})
		p := start(t, at(t, s.URL(), map[string]any{"num_ctx": 6000}))
		require.Nil(t, generate(t, p, window(8192)).err)
		require.EqualValues(t, 3000, room(s, 1))
		other := window(8192)
		other.Model = "n"
		require.Nil(t, generate(t, p, other).err)
		require.EqualValues(t, 6000, room(s, 2))
	})
	t.Run("what does not fit is refused and not cut", func(t *testing.T) {
		t.Parallel()
		for _, version := range []string{"", "0.12.5", "0.11.10-rc1"} {
			s := upstream.Start(t, upstream.Options{Version: version})
			p := start(t, at(t, s.URL(), map[string]any{"num_ctx": 20}))
			for _, whole := range []bool{false, true} {
				req := providertest.Ask(strings.Repeat("word ", 15), "yes", strings.Repeat("more ", 15))
				req.Whole = whole
				got := generate(t, p, req)
				require.NotNil(t, got.err, version)
				require.Equal(t, llm.ErrContext, got.err.Kind)
				require.Contains(t, got.err.Message, "does not fit the 20 tokens")
				require.Nil(t, generate(t, p, providertest.Ask("short")).err)
			}
		}
	})
	t.Run("a version that nobody can read is a new one", func(t *testing.T) {
		t.Parallel()
		for _, version := range []string{"0.12.6", "0.13.0", "1.0.0", "0.0.0", "0.0", "0.x.1", "main"} {
			s := upstream.Start(t, upstream.Options{Version: version})
			p := start(t, at(t, s.URL(), map[string]any{"num_ctx": 20}))
			require.Nil(t, generate(t, p, providertest.Ask(strings.Repeat("word ", 30))).err, version)
		}
	})
}

// TestThinkingIsHiddenAndMetered: what is thought is in the output that is charged, and nowhere else.
func TestThinkingIsHiddenAndMetered(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		s := upstream.Start(t, upstream.Options{})
		s.Enqueue(upstream.Reply{Model: "m:latest", Steps: []upstream.Step{upstream.Reasoning("let me see"),
			upstream.Text("42"), upstream.Finish("stop"), upstream.ReportTokens(upstream.Usage{Prompt: 100, Completion: 30,
				Cached: llm.Count(40)}), upstream.Done()}})
		req := providertest.Ask("hello")
		req.Whole = whole
		got := generate(t, start(t, at(t, s.URL(), nil)), req)
		require.Nil(t, got.err)
		require.Equal(t, "42", got.Text())
		require.Equal(t, "let me see", got.Thought)
		require.Equal(t, "m:latest", got.Model)
		require.Equal(t, llm.FinishStop, got.Finish)
		require.Equal(t, &llm.Usage{Input: llm.Count(60), CacheRead: llm.Count(40), Output: llm.Count(30)}, got.Usage,
			"GAP-109")
	}
	t.Run("a model is asked to think only if it can", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			capabilities []string
			setting      string
			thinks       bool
		}{
			"it cannot": {[]string{"completion"}, "on", false}, "nobody knows": {nil, "", false},
			"the operator knows": {nil, "on", true}, "it can": {[]string{"thinking"}, "", true},
		} {
			s := upstream.Start(t, upstream.Options{Local: map[string]upstream.Local{"m": {Capabilities: c.capabilities}}})
			require.Nil(t, generate(t, start(t, at(t, s.URL(), map[string]any{"think": c.setting})), providertest.Ask("x")).err)
			require.Equal(t, c.thinks, strings.Contains(body(t, s, 1), `"think":true`), name)
		}
	})
}

// TestThinkingGoesBack proves GAP-117 for Ollama: what was thought before calls goes back with them, as it was.
func TestThinkingGoesBack(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Reasoning("let \"me\""), upstream.Reasoning(" see\n😀"),
		upstream.ToolCall(0, "c1", "f"), upstream.Arguments(0, `{}`), upstream.ToolCall(1, "c2", "f"),
		upstream.Finish("tool_calls"), upstream.ReportUsage(), upstream.Done()}})
	p := start(t, at(t, s.URL(), nil))
	req := providertest.Ask("x")
	req.Tools = []llm.Tool{{Name: "f", Schema: json.RawMessage(`{}`)}}
	req.States = generate(t, p, req).States
	require.Equal(t, map[string][]byte{"c1": []byte("let \"me\" see\n😀")}, req.States)
	req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("so"),
		{Call: &llm.ToolCall{ID: "c1", Name: "f"}}, {Call: &llm.ToolCall{ID: "c2", Name: "f"}}}},
		llm.Message{Role: llm.RoleTool, CallID: "c1"}, llm.Message{Role: llm.RoleTool, CallID: "c2"})
	require.Nil(t, generate(t, p, req).err)
	got, err := s.Request(providertest.Context(t), 2)
	require.NoError(t, err)
	require.Equal(t, "let \"me\" see\n😀", *got.Messages[1].Reasoning)
	require.Len(t, got.Messages[1].Calls, 2)
	require.Equal(t, 1, strings.Count(string(got.Body), `"thinking"`))

	req.States = nil
	require.Nil(t, generate(t, p, req).err)
	require.NotContains(t, body(t, s, 3), `"thinking"`)
}

func TestCalls(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		s := upstream.Start(t, upstream.Options{})
		s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("so"), upstream.ToolCall(0, "call_1", "f"),
			upstream.Arguments(0, `{"a":`), upstream.Arguments(0, `1}`), upstream.ToolCall(1, "", "g"),
			upstream.Finish("tool_calls"), upstream.ReportUsage(), upstream.Done()}})
		req := providertest.Ask("x")
		req.Whole = whole
		req.Tools = []llm.Tool{{Name: "f", Schema: json.RawMessage(`{}`)}, {Name: "g", Schema: json.RawMessage(`{}`)}}
		got := generate(t, start(t, at(t, s.URL(), nil)), req)
		require.Nil(t, got.err)
		require.Equal(t, "so", got.Text())
		calls := got.Calls()
		require.Len(t, calls, 2)
		require.Equal(t, &llm.ToolCall{ID: "call_1", Name: "f", Arguments: llm.Plain(`{"a":1}`)}, calls[0])
		require.Equal(t, "g", calls[1].Name)
		require.Regexp(t, "^call_.", calls[1].ID, "the client needs one")
		require.Equal(t, llm.FinishToolCalls, got.Finish, "which Ollama calls stop")
	}
}

// TestUsage: what is not said is not made up (GAP-108, GAP-111).
func TestUsage(t *testing.T) {
	t.Parallel()
	attempt := func(counts string, estimate bool) *reply {
		s := upstream.Start(t, upstream.Options{})
		r := upstream.Say("one two three")
		r.Steps[len(r.Steps)-2] = upstream.ReportRaw(counts)
		s.Enqueue(r)
		req := providertest.Ask("hello")
		req.EstimateUsage = estimate
		return generate(t, start(t, at(t, s.URL(), nil)), req)
	}
	require.Equal(t, "prompt_eval_count is missing", attempt(`{"eval_count":3}`, false).Usage.Flaw,
		"old versions leave it out where the prompt was in the cache")
	require.Equal(t, "eval_count is missing", attempt(`{"prompt_eval_count":3}`, false).Usage.Flaw)
	require.Equal(t, "eval_count is negative", attempt(`{"prompt_eval_count":3,"eval_count":-1}`, false).Usage.Flaw)
	require.Equal(t, "prompt_eval_count is missing", attempt(`{}`, false).Usage.Flaw)
	for _, counts := range []string{`{}`, `{"eval_count":3}`} {
		counted := attempt(counts, true)
		require.True(t, counted.Usage.Estimated)
		require.True(t, counted.Usage.Complete())
	}
	said := attempt(`{"prompt_eval_count":7,"eval_count":3}`, true)
	require.Equal(t, &llm.Usage{Input: llm.Count(7), Output: llm.Count(3)}, said.Usage)
}

// TestEstimateOfHalfAReply: what was produced before a failure was work, thoughts included.
func TestEstimateOfHalfAReply(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Reasoning("hm hm"), upstream.Text("half"), upstream.Cut()}})
	req := providertest.Ask("hello")
	req.EstimateUsage = true
	got := generate(t, start(t, at(t, s.URL(), nil)), req)
	require.Equal(t, llm.ErrBroken, got.err.Kind)
	require.True(t, got.Usage.Estimated)
	require.Positive(t, llm.Tokens(got.Usage.Reasoning))
	require.Greater(t, llm.Tokens(got.Usage.Output), llm.Tokens(got.Usage.Reasoning))
}

func TestFailures(t *testing.T) {
	t.Parallel()
	refused := func(status int, message string) upstream.Reply {
		return upstream.Refuse(upstream.Error{Status: status, Message: message})
	}
	done := []upstream.Step{upstream.Text("a"), upstream.Finish("stop"), upstream.ReportUsage()}
	for name, c := range map[string]struct {
		reply upstream.Reply
		kind  llm.ErrorKind
		says  string
	}{
		"not pulled": {refused(404, `model "m" not found, try pulling it first`), llm.ErrUpstream, "`ollama pull m`"},
		"no tools":   {refused(400, `registry.ollama.ai/library/m does not support tools`), llm.ErrRejected, "offers"},
		"no memory": {refused(500, "model requires more system memory (geheim-zq11 GiB) than is available"),
			llm.ErrUpstream, "num_ctx"},
		"queue": {refused(503, "server busy, please try again. maximum pending requests exceeded"), llm.ErrCapacity,
			"OLLAMA_MAX_QUEUE"},
		"length": {refused(500, "request (302 tokens) exceeds the available context size (256 tokens)"), llm.ErrContext,
			"does not fit the 8192 tokens"},
		"form":  {refused(400, "invalid options: zq11"), llm.ErrRejected, "an error"},
		"limit": {upstream.Refuse(upstream.RateLimited("4")), llm.ErrCapacity, "an error"},
		"in mid-stream": {upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Fail(upstream.Error{
			Message: "an error was encountered while running the model: zq11"})}}, llm.ErrUpstream, "an error"},
		"length in mid-stream": {upstream.Reply{Steps: []upstream.Step{upstream.Headers(),
			upstream.Fail(upstream.ContextLength())}}, llm.ErrContext, "does not fit the 8192 tokens"},
		"an error in a 200": {upstream.Reply{Steps: []upstream.Step{upstream.Headers(),
			upstream.Fail(upstream.Error{Message: "boom"})}}, llm.ErrUpstream, "an error"},
		"cut": {upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Cut()}}, llm.ErrBroken,
			"broke"},
		"no last line": {upstream.Reply{Steps: done}, llm.ErrBroken, "ended before"},
		"half a line":  {upstream.Reply{Steps: append(done, upstream.Raw(`{"done":tr`))}, llm.ErrBroken, "ended before"},
		"no JSON":      {upstream.Reply{Steps: append(done, upstream.Raw("boom\n"))}, llm.ErrProtocol, "not a JSON object"},
		"a call without a name": {upstream.Reply{Steps: []upstream.Step{upstream.ToolCall(0, "a", ""),
			upstream.Finish("stop"), upstream.Done()}}, llm.ErrProtocol, "without a name"},
		"a web page": {upstream.Reply{Header: map[string]string{"Content-Type": "text/html"}, Steps: done}, llm.ErrUpstream,
			"web page"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.Start(t, upstream.Options{})
			s.Enqueue(c.reply)
			got := generate(t, start(t, at(t, s.URL(), nil)), providertest.Ask("x"))
			require.NotNil(t, got.err)
			require.Equal(t, c.kind, got.err.Kind, got.err.Message)
			require.Contains(t, got.err.Message, c.says)
			require.Equal(t, "req-fake-1", got.err.RequestID)
		})
	}
	t.Run("GAP-114 an end that is none stays one", func(t *testing.T) {
		t.Parallel()
		for word, want := range map[string]llm.FinishReason{"length": llm.FinishLength, "load": "load",
			"unload": "unload", "": llm.FinishUnknown} {
			s := upstream.Start(t, upstream.Options{})
			s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("a"), upstream.Finish(word), upstream.ReportUsage(),
				upstream.Done()}})
			require.Equal(t, want, generate(t, start(t, at(t, s.URL(), nil)), providertest.Ask("x")).Finish)
		}
	})
}

// TestStateOfAModel: what is not there or not ready is said.
func TestStateOfAModel(t *testing.T) {
	t.Parallel()
	t.Run("not pulled, and then it is", func(t *testing.T) {
		t.Parallel()
		s := upstream.Start(t, upstream.Options{Local: map[string]upstream.Local{}})
		p := start(t, at(t, s.URL(), nil))
		got := generate(t, p, providertest.Ask("x"))
		require.Equal(t, llm.ErrUpstream, got.err.Kind, "another route is worth trying")
		require.Contains(t, got.err.Message, "`ollama pull m`")
		s.SetLocal(map[string]upstream.Local{"m": {}})
		require.Nil(t, generate(t, p, providertest.Ask("x")).err)
		s.SetLocal(map[string]upstream.Local{})
		require.Contains(t, generate(t, p, providertest.Ask("x")).err.Message, "`ollama pull m`")
	})
	t.Run("what is known of a model that was replaced is asked anew", func(t *testing.T) {
		t.Parallel()
		s := upstream.Start(t, upstream.Options{Local: map[string]upstream.Local{
			"m": {Capabilities: []string{"completion"}}}})
		p := start(t, at(t, s.URL(), nil))
		require.Nil(t, generate(t, p, providertest.Ask("x")).err)
		require.NotContains(t, body(t, s, 1), "think")
		s.SetLocal(map[string]upstream.Local{"m": {Capabilities: []string{"thinking"}}})
		require.Nil(t, generate(t, p, providertest.Ask("x")).err)
		require.NotContains(t, body(t, s, 2), "think")
		s.Enqueue(upstream.Refuse(upstream.BadRequest("no", "")))
		require.NotNil(t, generate(t, p, providertest.Ask("x")).err)
		require.Nil(t, generate(t, p, providertest.Ask("x")).err)
		require.Contains(t, body(t, s, 4), "think")
	})
	for name, c := range map[string]struct {
		local   map[string]upstream.Local
		loading bool
	}{
		"loading":              {map[string]upstream.Local{"m": {}, "n": {Loaded: true}}, true},
		"loaded, and slow":     {map[string]upstream.Local{"m": {Loaded: true}}, false},
		"loaded by its tag":    {map[string]upstream.Local{"m": {}, "m:latest": {Loaded: true}}, false},
		"another of that name": {map[string]upstream.Local{"m": {}, "m:8b": {Loaded: true}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.New(upstream.Options{Local: c.local})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/api/chat" {
					panic(http.ErrAbortHandler)
				}
				s.ServeHTTP(w, r)
			}))
			defer server.Close()
			got := generate(t, start(t, at(t, server.URL, nil)), providertest.Ask("x"))
			require.Equal(t, llm.ErrUpstream, got.err.Kind)
			require.Equal(t, c.loading, strings.Contains(got.err.Message, "not loaded yet"), got.err.Message)
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		got := generate(t, start(t, at(t, "http://127.0.0.1:1", nil)), providertest.Ask("x"))
		require.Equal(t, llm.ErrUpstream, got.err.Kind)
		require.Contains(t, got.err.Message, "check that it is running")
		require.NotContains(t, got.err.Message, "loaded")
	})
	t.Run("something else there", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("hello"))
		}))
		defer server.Close()
		got := generate(t, start(t, at(t, server.URL, nil)), providertest.Ask("x"))
		require.Contains(t, got.err.Message, "is not Ollama")
		server.Config.Handler = http.NotFoundHandler()
		got = generate(t, start(t, at(t, server.URL, nil)), providertest.Ask("x"))
		require.Equal(t, llm.ErrRejected, got.err.Kind)
		require.Contains(t, got.err.Message, "check base_url")
	})
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"a proxy that lets only chats pass": {http.StatusMethodNotAllowed, ""},
		"a server without descriptions":     {http.StatusNotFound, "404 page not found"},
		"another one":                       {http.StatusNotFound, `{"detail":"Not Found"}`},
		"llama.cpp's":                       {http.StatusNotFound, `{"error":{"code":404,"message":"File Not Found"}}`},
		"one that has not got to them yet":  {http.StatusNotImplemented, `{"error":"not implemented"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.New(upstream.Options{Models: []string{"m"}})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/api/chat" {
					w.WriteHeader(c.status)
					_, _ = w.Write([]byte(c.body))
					return
				}
				s.ServeHTTP(w, r)
			}))
			defer server.Close()
			p := start(t, at(t, server.URL, nil))
			require.Nil(t, generate(t, p, providertest.Ask("x")).err)
			require.Contains(t, body(t, s, 1), `"num_ctx":8192`)
			require.NotContains(t, body(t, s, 1), `"think"`)
			missing := providertest.Ask("x")
			missing.Model = "other"
			require.Equal(t, 404, generate(t, p, missing).err.Status, "the chat says it")
		})
	}
	t.Run("a model that is not there is no missing path", func(t *testing.T) {
		t.Parallel()
		chats := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/chat" {
				chats++
			}
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":"model 'm' not found"}`))
		}))
		defer server.Close()
		got := generate(t, start(t, at(t, server.URL, nil)), providertest.Ask("x"))
		require.Contains(t, got.err.Message, "`ollama pull m`")
		require.Zero(t, chats)
	})
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{APIKey: "another"})
	for setting, says := range map[string]string{"": "; set api_key", key: "; check api_key"} {
		got := generate(t, start(t, at(t, s.URL(), map[string]any{"api_key": setting})), providertest.Ask("x"))
		require.Equal(t, llm.ErrCredentials, got.err.Kind)
		require.Contains(t, got.err.Message, says)
	}
}

// TestCallerLeaves: the upstream is told.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Wait("never")}})
	p := start(t, at(t, s.URL(), nil))
	ctx, leave := context.WithCancelCause(providertest.Context(t))
	gone := errors.New("gone")
	err := p.Generate(ctx, providertest.Ask("x"), func(ev llm.Event) error {
		if ev.Kind == llm.EventText {
			leave(gone)
		}
		return nil
	})
	require.ErrorIs(t, err, gone)
	rec, err := s.Ended(providertest.Context(t), 1)
	require.NoError(t, err)
	require.Equal(t, upstream.OutcomeLeft, rec.Outcome)

	err = p.Generate(providertest.Context(t), providertest.Ask("x"), func(llm.Event) error { return gone })
	require.ErrorIs(t, err, gone)
	err = p.Generate(providertest.Context(t), providertest.Ask("x"), func(ev llm.Event) error {
		if ev.Kind == llm.EventText {
			return gone
		}
		return nil
	})
	require.ErrorIs(t, err, gone)
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for want, values := range map[string]string{
		"setting base_url must begin":       `{"base_url": "zq11"}`,
		"must end before /v1":               `{"base_url": "http://zq11/v1/"}`,
		"must end before /api":              `{"base_url": "http://zq11/api"}`,
		"setting api_key must be one line":  `{"api_key": "zq11\nzq11"}`,
		"setting num_ctx must be":           `{"num_ctx": -1}`,
		"setting keep_alive must be a time": `{"keep_alive": "zq11"}`,
		"setting keep_alive must":           `{"keep_alive": "-5m"}`,
		"setting think must be":             `{"think": "zq11"}`,
		"setting idle_timeout must be":      `{"idle_timeout": "1us"}`,
	} {
		err := provider.Configure(t.Context(), ollama.New(), json.RawMessage(values))
		require.ErrorContains(t, err, want)
		require.NotContains(t, strings.ReplaceAll(err.Error(), "127.0.0.1:11434", ""), "zq11")
	}
	start(t, json.RawMessage(`{}`))
	start(t, json.RawMessage(`{"keep_alive": "0s"}`))
}
