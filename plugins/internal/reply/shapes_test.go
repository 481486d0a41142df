package reply_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// TestShapesOfRefusals: the same word is found wherever services put it, and is looked for nowhere else (GAP-126).
func TestShapesOfRefusals(t *testing.T) {
	t.Parallel()
	const asked = http.StatusBadRequest
	for name, tt := range map[string]struct {
		status int
		body   string
		want   llm.ErrorKind
	}{
		"a code":           {asked, `{"error":{"code":"insufficient_quota"}}`, llm.ErrQuota},
		"an inner error":   {asked, `{"error":{"innererror":{"code":"insufficient_quota"}}}`, llm.ErrQuota},
		"an inner_error":   {asked, `{"error":{"inner_error":{"code":"insufficient_quota"}}}`, llm.ErrQuota},
		"a list of errors": {asked, `{"errors":[{"code":"insufficient_quota"}]}`, llm.ErrQuota},
		"a list":           {asked, `[{"error":{"code":"insufficient_quota"}}]`, llm.ErrQuota},
		"a list in a text": {asked, `{"error":{"message":"[{\"code\":\"insufficient_quota\"}]"}}`, llm.ErrQuota},
		"an error in it":   {asked, `{"error":{"message":"{\"code\":\"insufficient_quota\"}"}}`, llm.ErrQuota},
		"behind its status": {asked, `{"error":{"message":` +
			`"Error code: 400 - {\"code\":\"insufficient_quota\"}"}}`, llm.ErrQuota},
		"half of one":     {asked, `{"error":{"message":"{\"code\":\"insufficient_quota\""}}`, llm.ErrRejected},
		"an event":        {asked, "event: error\ndata: {\"error\":{\"code\":\"insufficient_quota\"}}\n\n", llm.ErrQuota},
		"an error's line": {asked, "error: {\"code\":\"insufficient_quota\"}", llm.ErrQuota},
		"of a response":   {asked, `{"response":{"error":{"code":"insufficient_quota"}}}`, llm.ErrQuota},
		"what was sent":   {asked, `{"error":{"input":{"code":"insufficient_quota"}}}`, llm.ErrRejected},
		"OpenRouter's text": {asked, `{"error":{"message":"Provider returned error",` +
			`"metadata":{"raw":"{\"error\":{\"code\":\"context_length_exceeded\"}}"}}}`, llm.ErrContext},
		"OpenRouter's object": {asked, `{"error":{"message":"Provider returned error",` +
			`"metadata":{"raw":{"error":{"code":"context_length_exceeded"}}}}}`, llm.ErrContext},
		"OpenRouter's reasons": {http.StatusForbidden, `{"error":{"metadata":{"reasons":["violence"]}}}`, llm.ErrPolicy},
		"OpenRouter's input":   {http.StatusForbidden, `{"error":{"metadata":{"flagged_input":"so"}}}`, llm.ErrPolicy},
		"OpenRouter's route":   {http.StatusForbidden, `{"error":{"metadata":{"provider_name":"so"}}}`, llm.ErrCredentials},
		"Gemini's verdict":     {asked, `{"promptFeedback":{"blockReason":"SAFETY"}}`, llm.ErrPolicy},
		"Gemini's none":        {asked, `{"promptFeedback":{}}`, llm.ErrRejected},
		"MiniMax's code":       {http.StatusInternalServerError, `{"base_resp":{"status_code":1008}}`, llm.ErrQuota},
		"MiniMax's success":    {http.StatusInternalServerError, `{"base_resp":{"status_code":0}}`, llm.ErrUpstream},
		"MiniMax's load":       {529, `{"base_resp":{"status_code":0}}`, llm.ErrCapacity},
		"MiniMax's text": {http.StatusInternalServerError, `{"error":{"message":"insufficient balance (1008)"}}`,
			llm.ErrQuota},
		"a page":         {http.StatusUnauthorized, `<html>insufficient_quota`, llm.ErrCredentials},
		"nothing":        {http.StatusPaymentRequired, ``, llm.ErrQuota},
		"one letter":     {http.StatusPaymentRequired, `x`, llm.ErrQuota},
		"half an object": {asked, `{"error":{"code":"insufficient_quota"`, llm.ErrRejected},
		"a quota of the day": {429, `{"details":[{"@type":"google.rpc.QuotaFailure",` +
			`"violations":[{"quotaId":"PerDay"}]}]}`, llm.ErrQuota},
		"one of the minute": {429, `{"details":[{"@type":"google.rpc.QuotaFailure",` +
			`"violations":[{"quotaId":"M"}]}]}`, llm.ErrCapacity},
		"a limit of the day":  {429, `{"details":[{"metadata":{"quota_limit":"RequestsPerDay"}}]}`, llm.ErrQuota},
		"a reason of details": {asked, `{"details":[{"reason":"API_KEY_INVALID"}]}`, llm.ErrCredentials},
	} {
		t.Run("GAP-126 "+name, func(t *testing.T) {
			t.Parallel()
			e := reply.Refusal(tt.status, "", []byte(tt.body))
			require.Equal(t, tt.want, e.Kind)
			require.Equal(t, tt.status, e.Status)
		})
	}
}

// TestStatusInABody: where no reply has a status, or it says success, the error's own does.
func TestStatusInABody(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]struct {
		status int
		kind   llm.ErrorKind
	}{
		`{"code":429}`: {429, llm.ErrCapacity}, `{"code":"429"}`: {429, llm.ErrCapacity},
		`{"status":503}`: {503, llm.ErrUpstream},
		`{"code":400}`:   {400, llm.ErrRejected}, `{"code":402}`: {402, llm.ErrQuota},
		`{"code":599}`: {599, llm.ErrUpstream}, `{"code":600}`: {0, llm.ErrUpstream}, `{"code":399}`: {0, llm.ErrUpstream},
		`{"code":"40x"}`: {0, llm.ErrUpstream}, `{"code":"4 0"}`: {0, llm.ErrUpstream},
		`{"code":4291}`:  {0, llm.ErrUpstream},
		`{"code":"4/0"}`: {0, llm.ErrUpstream}, `{"code":"4:0"}`: {0, llm.ErrUpstream},
		`{"code":401,"status":429}`: {401, llm.ErrCredentials},
	} {
		e := reply.Failure(view(t, body))
		require.Equal(t, want.kind, e.Kind, "GAP-126 %s", body)
		require.Equal(t, want.status, e.Status, "GAP-126 %s", body)
	}
}

// TestWaits: the details, the text or the header say how long a refusal is good for (GAP-126).
func TestWaits(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]time.Duration{
		`{"details":[{"@type":"google.rpc.RetryInfo","retryDelay":"7s"}]}`:     7 * time.Second,
		`{"details":[{"@type":"google.rpc.RetryInfo","retryDelay":"-7s"}]}`:    9 * time.Second,
		`{"details":[{"@type":"google.rpc.RetryInfo","retryDelay":"soon"}]}`:   9 * time.Second,
		`{"details":[{"@type":"google.rpc.RetryInfo","retryDelay":"1000h"}]}`:  24 * time.Hour,
		`{"message":"Rate limit reached for x. Please try again in 250ms."}`:   250 * time.Millisecond,
		`{"message":"Rate limit reached for x. Please try again later."}`:      9 * time.Second,
		`{"message":"Rate limit reached for x. Please try again in 1.5s."}`:    1500 * time.Millisecond,
		`{"message":"Rate limit reached for x. Please try again in 1000 h."}`:  24 * time.Hour,
		`{"details":[{"@type":"google.rpc.ErrorInfo","reason":"RATE_LIMIT"}]}`: 9 * time.Second,
	} {
		e := reply.Refusal(http.StatusTooManyRequests, "9", []byte(body))
		require.Equal(t, llm.ErrCapacity, e.Kind, body)
		require.Equal(t, want, e.RetryAfter, body)
	}
}

func TestExceptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status           int
		name, text, says string
		want             llm.ErrorKind
	}{
		{400, "ValidationException", "Input is too long for requested model.", " (ValidationException)", llm.ErrContext},
		{400, "", "Input is too long for requested model.", "", llm.ErrContext},
		{429, "ThrottlingException", "", " (ThrottlingException)", llm.ErrCapacity},
		{0, "throttlingException", "", " (throttlingException)", llm.ErrCapacity},
		{403, "", "", "", llm.ErrCredentials},
	} {
		e := reply.Exception(tt.status, tt.name, tt.text)
		require.Equal(t, tt.want, e.Kind, "GAP-126 %s %s", tt.name, tt.text)
		require.Equal(t, "the upstream answered with an error"+tt.says, e.Message)
		require.Equal(t, tt.status, e.Status)
	}
}

// TestErrorsAmongChunks: what is an error where a chunk is due says so itself (error), or has nothing else to say
// (odd).
func TestErrorsAmongChunks(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]struct{ error, odd bool }{
		`{}`: {}, `{"choices":[]}`: {}, `[]`: {}, `"error"`: {},
		`{"error":"x"}`: {true, true}, `{"error":{}}`: {true, true},
		`{"base_resp":{"status_code":0}}`: {}, `{"base_resp":{"status_code":1}}`: {true, true},
		`{"base_resp":{"status_code":"1"}}`: {}, `{"object":"error"}`: {true, true}, `{"object":"list"}`: {},
		`{"type":"error"}`: {true, true}, `{"type":"ping"}`: {},
		`{"status":400,"title":"t"}`: {true, true}, `{"status":399,"title":"t"}`: {}, `{"status":400}`: {},
		`{"status":500,"title":5}`: {}, `{"title":"t"}`: {}, `{"response":{}}`: {},
		`{"response":{"error":{}}}`: {true, true},
		`{"message":"m"}`:           {false, true}, `{"message":5}`: {}, `{"detail":"d"}`: {false, true},
		`{"errors":[]}`: {false, true}, `{"errors":"e"}`: {},
	} {
		require.Equal(t, want.odd, reply.Odd(view(t, body)) != nil, "GAP-126 %s", body)
		require.Equal(t, want.error, reply.BareChunk([]byte(" "+body)) != nil, "GAP-126 %s", body)
		require.Nil(t, reply.BareChunk([]byte(body[1:])), "what is no JSON says nothing")
	}
	for said, want := range map[string]string{
		`{"error":1}`: `{"error":1}`, ` {"code":1} `: `{"error":{"code":1}}`, "overloaded\xff\n": `{"error":"overloaded"}`,
		`"text"`: `{"error":"text"}`,
	} {
		require.Equal(t, want, string(reply.ErrorChunk([]byte(said))))
	}
}

// TestThoughts: what was thought before a call is its state, with where it stood, or nothing where nobody can say
// that.
func TestThoughts(t *testing.T) {
	t.Parallel()
	for steps, want := range map[string]string{
		"":            "",
		"a":           `a|`,
		"a b":         `a b|`,
		"a . b c":     `a|b c`,
		". a":         `|a`,
		"a . b .":     "lost",
		"a -":         `a|`,
		"- . - a":     `|a`,
		"a large":     "lost",
		"a lose b":    "lost",
		"half . half": "lost",
		"half half":   "lost",
	} {
		var th reply.Thoughts
		for range 2 { // the state of one call says nothing of the next
			for _, step := range strings.Fields(steps) {
				switch step {
				case ".":
					th.Text("text")
				case "-":
					th.Text("")
				case "lose":
					th.Lose()
				case "large":
					th.Add([]byte(`"` + strings.Repeat("x", llm.MaxState) + `"`))
				case "half":
					th.Add([]byte(`"` + strings.Repeat("x", llm.MaxState/2) + `"`))
				default:
					th.Add([]byte(`"` + step + `"`))
				}
			}
			require.Equal(t, want == "lost", th.Lost(), steps)
			first, then := reply.ThoughtsOf(th.State())
			all := string(bytes.Join(first, []byte(" "))) + "|" + string(bytes.Join(then, []byte(" ")))
			if want == "" || want == "lost" {
				require.Equal(t, "|", all, steps)
				require.Nil(t, th.State())
			} else {
				require.Equal(t, want, strings.ReplaceAll(all, `"`, ""), steps)
			}
		}
	}
	first, then := reply.ThoughtsOf([]byte("{"))
	require.Empty(t, first)
	require.Empty(t, then)
}

// TestStatesOfCalls (GAP-117): what a family says of each call, as it begins, from what was thought before; of no call
// more than is kept.
func TestStatesOfCalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		returns, says bool
		thought       string
		want          []string
	}{
		{false, false, "because", []string{"", ""}},
		{true, false, "because", []string{"because", ""}},
		{true, true, "because", []string{"true because own", "false because own"}},
		{false, true, "because", []string{"true  own", "false  own"}},
		{true, false, strings.Repeat("x", llm.MaxState), []string{strings.Repeat("x", llm.MaxState), ""}},
		{true, false, strings.Repeat("x", llm.MaxState+1), []string{"", ""}},
	} {
		var states []string
		s := reply.New(reply.Counting{Input: "in", Output: "out"}, func(ev llm.Event) error {
			if ev.Kind == llm.EventToolCall {
				states = append(states, string(ev.State))
			}
			return nil
		})
		if c.returns {
			s.ReturnReasoning()
		}
		if c.says {
			s.States(func(first bool, thought, own []byte) []byte { return fmt.Appendf(nil, "%t %s %s", first, thought, own) })
		}
		require.NoError(t, s.Thought(c.thought))
		for i := range 2 {
			require.NoError(t, s.Piece(reply.Piece{Index: fmt.Sprint(i), ID: fmt.Sprint("c", i), Name: "f",
				Own: []byte("own"), Arguments: view(t, `"{}"`)}))
		}
		require.NoError(t, s.End())
		require.Equal(t, c.want, states, "%.20s", c.thought)
	}
}

// TestTake: what an event of a stream is, before a family looks at it.
func TestTake(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused by the family")
	for name, tt := range map[string]struct {
		data string
		err  error
		read bool
		kind llm.ErrorKind // "" where the reply goes on
	}{
		"an object":             {data: ` {"a":1} `, read: true},
		"what the family says":  {data: `{"a":1}`, read: true, err: refused, kind: llm.ErrUpstream},
		"an empty line":         {data: ` `},
		"the end of chat":       {data: ` [DONE] `},
		"no JSON":               {data: `{"a":`, kind: llm.ErrProtocol},
		"a text":                {data: `"a"`, kind: llm.ErrProtocol},
		"a list":                {data: `[{"a":1}]`, kind: llm.ErrProtocol},
		"a list of errors":      {data: `[{"a":1},{"error":{"code":429}}]`, kind: llm.ErrCapacity},
		"half a list of errors": {data: `[{"error":{"code":429}}`, kind: llm.ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := reply.New(chat, func(llm.Event) error { return nil })
			read := 0
			event := func(root jsonview.View) error {
				read++
				require.True(t, root.Get("a").Set())
				return tt.err
			}
			err := s.Take([]byte(tt.data), event)
			require.Equal(t, tt.read, read == 1)
			require.Equal(t, err, s.Err())
			if tt.kind == "" {
				require.NoError(t, err)
				return
			}
			if tt.err != nil {
				require.ErrorIs(t, err, tt.err)
			} else {
				require.Equal(t, tt.kind, llm.KindOf(err))
			}
			before := read
			require.Equal(t, err, s.Take([]byte(`{"a":1}`), event), "the reply has ended")
			require.Equal(t, before, read)
		})
	}
}

func TestWhole(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused by the family")
	for name, tt := range map[string]struct {
		body string
		err  error
		want []llm.EventKind
	}{
		"a reply":              {`{"a":1}`, nil, []llm.EventKind{llm.EventText, llm.EventFinish}},
		"what the family says": {`{"a":1}`, refused, []llm.EventKind{llm.EventText}},
		"no object":            {`7`, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var kinds []llm.EventKind
			s := reply.New(chat, func(ev llm.Event) error { kinds = append(kinds, ev.Kind); return nil })
			err := s.Whole([]byte(tt.body), func(jsonview.View) error { return errors.Join(s.Said("a"), tt.err) })
			require.Equal(t, name == "a reply", err == nil)
			require.Equal(t, err, s.Err())
			require.Equal(t, tt.want, kinds)
		})
	}
}

// TestBlocks: arguments belong to the call of their block, or to the only one that they can belong to.
func TestBlocks(t *testing.T) {
	t.Parallel()
	const half, whole = `{"q"`, `{"q":1}`
	for name, tt := range map[string]struct {
		open map[int64]string // what has come of each; "-" for one that the upstream makes itself
		at   int64
		want int64 // the block whose call they are; -1 for none
	}{
		"its own":                  {map[int64]string{1: half, 2: half}, 2, 2},
		"the upstream's own":       {map[int64]string{1: half, 2: "-"}, 2, 2},
		"the only one":             {map[int64]string{1: half}, 7, 1},
		"the only one, whole":      {map[int64]string{1: whole}, 7, 1},
		"beside the upstream's":    {map[int64]string{1: half, 2: "-"}, 7, 1},
		"the only one in the make": {map[int64]string{1: whole, 2: half, 3: whole}, 7, 2},
		"any of two":               {map[int64]string{1: half, 2: half}, 7, -1},
		"none of two":              {map[int64]string{1: whole, 2: whole}, 7, -1},
		"none":                     {map[int64]string{}, 7, -1},
		"only the upstream's":      {map[int64]string{2: "-"}, 7, -1},
	} {
		t.Run("GAP-84 "+name, func(t *testing.T) {
			t.Parallel()
			var b reply.Blocks
			s := reply.New(chat, func(llm.Event) error { return nil })
			calls := map[int64]*reply.Call{}
			for index, text := range tt.open {
				if text != "-" {
					call, err := s.Call("", "f")
					require.NoError(t, err)
					require.NoError(t, call.Arguments(text))
					calls[index] = call
				}
				b.Begin(index, calls[index])
			}
			got, err := b.Call(tt.at)
			if tt.want < 0 {
				require.Equal(t, llm.ErrProtocol, llm.KindOf(err))
				return
			}
			require.NoError(t, err)
			require.Same(t, calls[tt.want], got)
			require.NoError(t, b.End(tt.want))
			if len(tt.open) == 1 {
				_, err = b.Call(tt.want)
				require.Equal(t, llm.ErrProtocol, llm.KindOf(err), "it has ended")
			}
		})
	}
	t.Run("GAP-84 begun again", func(t *testing.T) {
		t.Parallel()
		var b reply.Blocks
		s := reply.New(chat, func(llm.Event) error { return nil })
		call, err := s.Call("c1", "f")
		require.NoError(t, err)
		b.Begin(1, call)
		b.Begin(2, nil)
		require.True(t, b.Again(1, "c1", "f"))
		require.False(t, b.Again(1, "c1", "g"))
		require.False(t, b.Again(1, "c2", "f"))
		require.False(t, b.Again(2, "c1", "f"))
		require.NoError(t, call.Arguments(half))
		require.False(t, b.Again(1, "c1", "f"), "its arguments have begun")
		unnamed, err := s.Call("", "f")
		require.NoError(t, err)
		b.Begin(3, unnamed)
		require.False(t, b.Again(3, "", "f"), "nobody can say that it is the same")
	})
}

// TestOutputThatIsThought: where reasoning stands beside the output, a count of zero is left out of it (GAP-125).
func TestOutputThatIsThought(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		d       reply.Counting
		visible bool
		usage   string
		want    string // "" where it is no usage
	}{
		"nothing but thoughts": {gemini, false, `{"promptTokenCount":9,"thoughtsTokenCount":5}`, "9 - - 5 5"},
		"text, too":            {gemini, true, `{"promptTokenCount":9,"thoughtsTokenCount":5}`, ""},
		"said to be none": {gemini, false,
			`{"promptTokenCount":9,"candidatesTokenCount":0,"thoughtsTokenCount":5}`, "9 - - 5 5"},
		"where it stands within":    {chat, false, `{"prompt_tokens":9,"reasoning_tokens":5}`, ""},
		"nothing said of the other": {gemini, false, `{"promptTokenCount":9}`, ""},
	} {
		t.Run("GAP-125 "+name, func(t *testing.T) {
			t.Parallel()
			var usage *llm.Usage
			s := reply.New(tt.d, func(ev llm.Event) error {
				if ev.Kind == llm.EventUsage {
					usage = ev.Usage
				}
				return nil
			})
			require.NoError(t, s.Thought("hm"))
			if tt.visible {
				require.NoError(t, s.Said("a"))
			}
			s.Used(view(t, tt.usage))
			require.NoError(t, s.End())
			require.NotNil(t, usage)
			if tt.want == "" {
				require.Equal(t, tt.d.Output+" is missing", usage.Flaw)
				return
			}
			require.Empty(t, usage.Flaw)
			require.Equal(t, tt.want, shown(usage))
		})
	}
}
