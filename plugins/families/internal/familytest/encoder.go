package familytest

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// maxScript bounds what a fuzzer makes, in bytes: longer replies hold nothing new, and are slow to check.
const maxScript = 1 << 9

// FuzzEncoder checks what the encoder of a family writes of any reply, however that ends: that all of it is whole
// events of JSON, that the family's own decoder reads the same in them, that nothing ends a stream which has failed,
// and that the reply in one piece says what its stream says. The seeds are scripts.
func FuzzEncoder(fuzz *testing.F, f Family, seeds ...string) {
	for _, seed := range seeds {
		fuzz.Add([]byte(seed))
	}
	for n := range hostile { // as text, as a name and an argument, before every end
		text := string([]byte{byte(128 + n)})
		for _, ends := range []string{"\x00\x00\x01", "\x00\x01\x00", "\x00\x02\x00\x01" + text, "\x02" + text, "\x03"} {
			fuzz.Add([]byte("\x05" + text + "\x00\x01c" + text + "\x01\x00" + text + "\x03\x00\xff" + ends))
		}
	}
	fuzz.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > maxScript {
			return
		}
		s := script{rest: string(input)}
		w := writer{t: t, family: f, encoder: f.NewEncoder(), events: distinct(s.events(t))}
		switch s.number() % 4 {
		case 0, 1:
			w.ends(s.end())
		case 2:
			w.fails(s.failure(), s.yes())
		case 3:
			w.breaksOff()
		}
	})
}

// distinct are events whose calls have ids of their own, and whose arguments are not said twice, as a decoder's are.
func distinct(events []llm.Event) []llm.Event {
	said := map[int]string{}
	for i := range events {
		switch ev := &events[i]; ev.Kind {
		case llm.EventToolCall:
			ev.ID += "#" + strconv.Itoa(ev.Index)
		case llm.EventToolArguments:
			if ev.Text == said[ev.Index] {
				ev.Text = ""
			}
			said[ev.Index] += ev.Text
		}
	}
	return events
}

// FuzzEncodeRequest checks that whatever is sent to an upstream is JSON that the family's server reads as the same
// request: sent on, it stays as it is but for blanks in schemas. The seeds are scripts.
func FuzzEncodeRequest(fuzz *testing.F, f Family, seeds ...string) {
	for _, seed := range seeds {
		fuzz.Add([]byte(seed))
	}
	for n := range hostile { // as a stop sequence, a description, text, a call, and its result
		text := string([]byte{byte(128 + n)})
		fuzz.Add([]byte("\x02\x05\x00\x01\x40\x01" + text + "\x03" + text + "\x00" + text + "\x01" + text + "\x02\x03" +
			"\x03\x01" + text + "\x00\x02" + text + "\x02hi\x01\x02\x00" + text + "\x01" + text + text + text +
			"\x02\x00\x01\x01" + text))
	}
	fuzz.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > maxScript {
			return
		}
		s := script{rest: string(input)}
		req := s.request()
		body, err := f.Conformed(nil, req)
		if err != nil {
			require.Empty(t, said(req), "refused although something is said: %v", err)
			return
		}
		require.True(t, json.Valid(body) && utf8.Valid(body), "not JSON: %q", body)
		again, refusal := f.Decode(t, string(body), families.Rules{StructuredOutput: true})
		require.Nil(t, refusal)
		require.Equal(t, !req.Whole, again.Stream)
		again.LLM.Whole = req.Whole
		twice, err := f.Conformed(nil, again.LLM)
		require.NoError(t, err)
		require.Equal(t, string(jsonview.AppendCompact(nil, body)), string(jsonview.AppendCompact(nil, twice)))
	})
}

// said are the calls of a conversation and the texts that are not blank.
func said(req *llm.Request) []llm.Part {
	var all []llm.Part
	for _, m := range Plain(req.Messages) {
		for _, part := range m.Parts {
			if part.Call != nil || !part.Text.Blank() {
				all = append(all, part)
			}
		}
	}
	return all
}

// writer writes a reply as a stream, and checks every step.
type writer struct {
	t       *testing.T
	family  Family
	encoder families.Encoder
	events  []llm.Event
	stream  string
}

// wrote takes what one step of the encoder wrote.
func (w *writer) wrote(b []byte) []string {
	frames := requireFrames(w.t, string(b))
	require.NoError(w.t, w.family.schema().Stream(b))
	w.stream += string(b)
	return frames
}

// says writes the reply up to its end, kept alive all the while.
func (w *writer) says() {
	w.wrote(w.encoder.AppendKeepAlive(nil))
	require.NotEmpty(w.t, w.wrote(w.encoder.AppendStart(nil)))
	for i, ev := range w.events {
		if w.wrote(w.encoder.AppendEvent(nil, ev)); i%4 == 0 {
			w.wrote(w.encoder.AppendKeepAlive(nil))
		}
	}
}

// readable reports whether all that is said is text, which comes back as it was.
func (w *writer) readable() bool {
	for _, ev := range w.events {
		if !utf8.ValidString(ev.Text) || !utf8.ValidString(ev.ID) || !utf8.ValidString(ev.Name) {
			return false
		}
	}
	return true
}

func (w *writer) ends(end families.End) {
	end.Usage = billed(end.Usage)
	w.says()
	w.wrote(w.encoder.AppendEnd(nil, end))
	whole := w.family.Whole(w.events, end)
	requireJSON(w.t, whole)
	if w.family.Repeated != nil {
		require.Equal(w.t, whole, w.family.Repeated(w.t, w.stream))
	}

	streamed, err := w.family.ReadStream(w.stream)
	require.NoError(w.t, err)
	requireOrder(w.t, streamed)
	again, err := w.family.ReadWhole(whole)
	require.NoError(w.t, err)
	requireOrder(w.t, again)

	reply, fromStream, fromWhole := fold(w.events), fold(streamed), fold(again)
	require.Contains(w.t, finishes(reply, end), fromStream.Finish)
	require.Equal(w.t, fromStream.Finish, fromWhole.Finish)
	var used llm.Usage
	if end.Usage != nil {
		used = *end.Usage
	}
	if used.Input != nil { // otherwise a stream may have begun with more (GAP-124)
		require.Equal(w.t, fromStream.Usage, fromWhole.Usage)
	}
	require.Equal(w.t, llm.Tokens(used.Output), llm.Tokens(fromStream.Usage.Output))
	if !w.readable() {
		return
	}
	require.Equal(w.t, w.family.seen(reply), w.family.seen(fromStream))
	if w.family.Arguments != nil {
		for _, call := range reply.Calls() {
			call.Arguments = llm.Plain(w.family.Arguments(call.Arguments.String()))
		}
	}
	require.Equal(w.t, w.family.seen(reply), w.family.seen(fromWhole))
}

// finishes are the ways in which a reader may see that a reply ended. A match in text after a call has no word of
// its own in families that say of both only that the reply is complete.
func finishes(reply *llm.Reply, end families.End) []llm.FinishReason {
	calls := len(reply.Calls()) > 0
	switch {
	case end.Finish == llm.FinishPolicy:
		return []llm.FinishReason{llm.FinishPolicy}
	case end.StopSequence != nil && calls:
		return []llm.FinishReason{llm.FinishStop, llm.FinishToolCalls}
	case end.StopSequence != nil:
		return []llm.FinishReason{llm.FinishStop}
	case end.Finish == llm.FinishLength:
		return []llm.FinishReason{llm.FinishLength}
	case calls:
		return []llm.FinishReason{llm.FinishToolCalls}
	}
	return []llm.FinishReason{llm.FinishStop}
}

// fails ends the stream with an error, which may come before its start (GAP-68). As a body it is the family's, too.
func (w *writer) fails(err *families.Error, early bool) {
	require.NoError(w.t, w.family.schema().Failure(w.family.Server.AppendError(nil, err)))
	if early {
		w.events = nil
	} else {
		w.says()
	}
	require.NotContains(w.t, w.wrote(w.encoder.AppendError(nil, err)), "[DONE]")
	require.NotContains(w.t, []llm.ErrorKind{"", llm.ErrBroken, llm.ErrProtocol}, w.requireUnfinished())
}

// breaksOff leaves the stream without an end, as a connection that is lost does.
func (w *writer) breaksOff() {
	w.says()
	require.Equal(w.t, llm.ErrBroken, w.requireUnfinished())
}

// requireUnfinished fails for a stream that reads as a whole reply, or of which text is lost.
func (w *writer) requireUnfinished() llm.ErrorKind {
	got, err := w.family.ReadStream(w.stream)
	for _, ev := range got {
		require.NotEqual(w.t, llm.EventFinish, ev.Kind)
	}
	if w.readable() {
		require.Equal(w.t, fold(w.events).Text(), fold(got).Text())
	}
	return llm.KindOf(err)
}

// requireFrames fails for what is not whole events or comments, each as the families write them: one line of data,
// which is JSON or the end marker, after at most one line with a name. Readers that end lines where Unicode does see
// the same ones. It returns the data, "" for a comment.
func requireFrames(t *testing.T, stream string) []string {
	t.Helper()
	if stream == "" {
		return []string{}
	}
	require.False(t, strings.ContainsAny(stream, "\r\u0085\u2028\u2029"), stream)
	require.True(t, strings.HasSuffix(stream, "\n\n"), stream)
	var all []string
	for frame := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		if strings.HasPrefix(frame, ": ") && !strings.Contains(frame, "\n") {
			all = append(all, "")
			continue
		}
		if strings.HasPrefix(frame, "event: ") {
			_, frame, _ = strings.Cut(frame, "\n")
		}
		data, ok := strings.CutPrefix(frame, "data: ")
		require.True(t, ok, frame)
		if data != "[DONE]" {
			requireJSON(t, data)
		}
		all = append(all, data)
	}
	return all
}

// requireJSON fails for what is not one line of JSON.
func requireJSON(t *testing.T, text string) {
	t.Helper()
	require.True(t, json.Valid([]byte(text)) && utf8.ValidString(text), "not JSON: %q", text)
	require.NotContains(t, text, "\n")
}
