package bedrock

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

// answering is an HTTP client that answers every request with this body.
type answering []byte

func (a answering) Do(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(a)),
		Header: http.Header{"Content-Type": {"application/vnd.amazon.eventstream"}}}, nil
}

// framed is a message of the event stream ("vnd.amazon.event-stream"): lengths, headers, payload and checksums.
func framed(event, payload string) []byte {
	var headers []byte
	for _, h := range [][2]string{{":message-type", "event"}, {":event-type", event},
		{":content-type", "application/json"}} {
		const text = 7
		headers = append(append(headers, byte(len(h[0]))), h[0]...)
		headers = binary.BigEndian.AppendUint16(append(headers, text), uint16(len(h[1])))
		headers = append(headers, h[1]...)
	}
	const around = 16
	b := binary.BigEndian.AppendUint32(nil, uint32(around+len(headers)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// FuzzEventStream: whatever comes as an event stream ends, in a legal sequence of events: one finish behind which
// nothing comes, or an error of ours, before which no reply looks complete. lines are events by their names and
// payloads, each in a frame of its own, with raw bytes behind them.
func FuzzEventStream(f *testing.F) {
	const whole = `messageStart {"role":"assistant"}
contentBlockDelta {"contentBlockIndex":0,"delta":{"text":"hi"}}
contentBlockStop {"contentBlockIndex":0}
contentBlockStart {"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"t","name":"f"}}}
contentBlockDelta {"contentBlockIndex":1,"delta":{"toolUse":{"input":"{}"}}}
contentBlockStop {"contentBlockIndex":1}
messageStop {"stopReason":"tool_use"}
metadata {"usage":{"inputTokens":3,"outputTokens":4,"totalTokens":7}}`
	f.Add(whole, []byte(nil))
	f.Add(whole, []byte{0, 0, 0, 16, 0, 0})
	f.Add(strings.SplitAfter(whole, "\n")[1], framed("messageStop", `{"stopReason":"end_turn"}`))
	f.Add(`contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"s"}}}`,
		[]byte("\xff\xff\xff\xff"))
	f.Add(`modelStreamErrorException {"message":"no"}`, []byte(nil))
	f.Add(`messageStop {"stopReason":7}`, []byte(nil))
	f.Fuzz(func(t *testing.T, lines string, raw []byte) {
		var kinds []llm.EventKind
		err := readStream(t, append(events(lines), raw...), func(ev llm.Event) error {
			kinds = append(kinds, ev.Kind)
			return nil
		})
		finishes := bytes.Count(kindBytes(kinds), []byte{byte(llm.EventFinish)})
		if err != nil {
			_, ours := errors.AsType[*llm.Error](err)
			require.True(t, ours, err)
			require.Zero(t, finishes)
			return
		}
		require.Equal(t, 1, finishes)
		require.Equal(t, llm.EventFinish, kinds[len(kinds)-1])
		require.Equal(t, llm.EventAccepted, kinds[0])
	})
}

// TestCallsInPieces: whatever arrives from Bedrock in pieces becomes the same calls, or an error.
func TestCallsInPieces(t *testing.T) {
	t.Parallel()
	const begin = `contentBlockStart {"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"t","name":"f"}}}` + "\n"
	piece := func(index int, input string) string {
		raw, err := json.Marshal(input)
		require.NoError(t, err)
		return fmt.Sprintf(`contentBlockDelta {"contentBlockIndex":%d,"delta":{"toolUse":{"input":%s}}}`+"\n", index, raw)
	}
	const end = `contentBlockStop {"contentBlockIndex":1}` + "\n"
	second := strings.NewReplacer(`Index":1`, `Index":2`, `"name":"f"`, `"name":"g"`).Replace(begin)
	for name, c := range map[string]struct {
		lines string
		want  []string // none: an error
	}{
		"pieces":                          {begin + piece(1, `{"q"`) + piece(1, `:1}`) + end, []string{`f(t) {"q":1}`}},
		"another index than its block":    {begin + piece(0, `{"q"`) + piece(7, `:1}`) + end, []string{`f(t) {"q":1}`}},
		"a JSON text of an object":        {begin + piece(1, `"{\"q\":`) + piece(1, `1}"`) + end, []string{`f(t) {"q":1}`}},
		"an empty object before the rest": {begin + piece(1, `{}`) + piece(1, `{"q":1}`) + end, []string{`f(t) {"q":1}`}},
		"null before the rest":            {begin + piece(1, `null`) + piece(1, `{"q":1}`) + end, []string{`f(t) {"q":1}`}},
		"said once more": {begin + piece(1, `{"q":1}`) + piece(1, `{"q":1}`) + end,
			[]string{`f(t) {"q":1}`}},
		"nothing":            {begin + end, []string{`f(t) `}},
		"an array stays one": {begin + piece(1, `[]`) + end, []string{`f(t) []`}},
		"null stays it":      {begin + piece(1, `null`) + end, []string{`f(t) null`}},
		"one id for two calls": {begin + piece(1, `{}`) + end + second + piece(2, `{"q":2}`),
			[]string{`f(t) {}`, `g(t_2) {"q":2}`}},
		"two that are open": {begin + second + piece(2, `{"q":2}`) + piece(1, `{}`),
			[]string{`f(t) {}`, `g(t_2) {"q":2}`}},
		"a block that does not end":    {begin + piece(1, `{}`), []string{`f(t) {}`}},
		"no call that could have them": {piece(1, `{}`), nil},
		"a call that has ended":        {begin + piece(1, `{"q"`) + end + piece(1, `:1}`), nil},
		"a call without a name":        {strings.Replace(begin, `"name":"f"`, `"name":""`, 1) + piece(1, `{}`), nil},
		"what Bedrock calls itself": {strings.Replace(begin, "toolUse", "toolResult", 1) + piece(1, `{}`) + begin,
			[]string{`f(t) `}},
	} {
		t.Run("GAP-84 "+name, func(t *testing.T) {
			t.Parallel()
			var folded llm.Reply
			err := readStream(t, events(c.lines+`messageStop {"stopReason":"tool_use"}`), func(ev llm.Event) error {
				folded.Add(ev)
				return nil
			})
			if c.want == nil {
				require.Equal(t, llm.ErrProtocol, llm.KindOf(err))
				return
			}
			require.NoError(t, err)
			folded.Close()
			var got []string
			for _, call := range folded.Calls() {
				got = append(got, call.Name+"("+call.ID+") "+call.Arguments.String())
			}
			require.Equal(t, c.want, got)
		})
	}
}

// events are messages of an event stream, of lines with their names and payloads.
func events(lines string) (body []byte) {
	for line := range strings.SplitSeq(lines, "\n") {
		name, payload, _ := strings.Cut(line, " ")
		if name = strings.ToValidUTF8(name, ""); 0 < len(name) && len(name) < 100 {
			body = append(body, framed(name, payload)...)
		}
	}
	return body
}

// readStream reads a reply that comes as an event stream.
func readStream(t *testing.T, body []byte, send func(llm.Event) error) error {
	b := &Bedrock{settings: Settings{Region: "eu-central-1", APIKey: "k"}}
	require.NoError(t, b.Start(t.Context()))
	in, err := encodeRequest(&llm.Request{Model: "m", MaxTokens: 9, Messages: []llm.Message{{Role: llm.RoleUser,
		Parts: []llm.Part{llm.Text("hi")}}}}, nil, false)
	require.NoError(t, err)
	out, err := b.client.ConverseStream(t.Context(), in, withHTTPClient(answering(body)))
	require.NoError(t, err, "the head of the reply says nothing of its body")
	return (&call{}).read(out.GetStream(), 9, send)
}

func kindBytes(kinds []llm.EventKind) (b []byte) {
	for _, kind := range kinds {
		b = append(b, byte(kind))
	}
	return b
}

// TestWhatFailedStaysFailed: behind an error nothing is sent any more, and each further event says the same.
func TestWhatFailedStaysFailed(t *testing.T) {
	t.Parallel()
	left, sent := errors.New("left"), 0
	d := newDecoder(func(llm.Event) error {
		sent++
		return left
	})
	text := &types.ConverseStreamOutputMemberContentBlockDelta{Value: types.ContentBlockDeltaEvent{
		ContentBlockIndex: new(int32), Delta: &types.ContentBlockDeltaMemberText{Value: "hi"}}}
	for range 3 {
		require.ErrorIs(t, d.event(text), left)
		require.Equal(t, 1, sent)
	}
}
