package familytest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/sse"
	"github.com/fareway/fareway/plugins/tokens"
)

// Sent fails if a request that was read cannot be sent on, or is then read as another one.
type Sent func(t *testing.T, req *families.Request)

// captures are what agents and client libraries really sent, with their texts replaced and shortened and most
// tools left out: the files in testdata/requests, by their names.
func captures(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/requests/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := make(map[string]string)
	for _, file := range files {
		body, err := os.ReadFile(file)
		require.NoError(t, err)
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = string(body)
	}
	return all
}

// Captures checks that what real clients send is read, but for what is refused, by its name, with that code and a
// message that holds this one; and that it can be sent on.
func Captures(t *testing.T, f Family, refused map[string]families.Error, sent Sent) {
	all := captures(t)
	for name := range refused {
		require.Contains(t, all, name)
	}
	for name, body := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := f.Decoded(t, body)
			if want, ok := refused[name]; ok {
				require.NotNil(t, err)
				require.Equal(t, want.Code, err.Code)
				require.Contains(t, err.Message, want.Message)
				return
			}
			require.Nil(t, err)
			require.NotEmpty(t, req.LLM.Messages)
			require.Greater(t, tokens.Estimate(req.LLM), int64(4*len(req.LLM.Messages)))
			sent(t, req)
		})
	}
}

// FuzzDecode checks that whatever is accepted keeps the rules of the canonical request and can be sent on. Its
// seeds come after what real clients sent.
func FuzzDecode(fuzz *testing.F, f Family, sent Sent, seeds ...string) {
	for _, body := range captures(fuzz) {
		fuzz.Add([]byte(body))
	}
	for _, body := range seeds {
		fuzz.Add([]byte(body))
	}
	fuzz.Fuzz(func(t *testing.T, body []byte) {
		doc, err := families.Parse(body)
		if err != nil {
			require.Equal(t, 400, err.Status)
			return
		}
		for _, rules := range []families.Rules{{}, {StructuredOutput: true}} {
			req, err := f.Server.Decode(doc, rules)
			if err != nil {
				require.Equal(t, 400, err.Status)
				require.NotEmpty(t, err.Message)
				require.Nil(t, req)
				continue
			}
			require.True(t, rules.StructuredOutput || req.LLM.Format == nil)
			requireCanonical(t, req.LLM)
			stream := Stream(f.Server.NewEncoder(req, Head), Say("a"), families.End{}) // what is echoed, too
			requireFrames(t, stream)
			require.NoError(t, f.schema().Stream([]byte(stream)))
			sent(t, req)
		}
	})
}

// requireCanonical fails for a request that the canonical model does not have.
func requireCanonical(t *testing.T, req *llm.Request) {
	t.Helper()
	calls := map[string]bool{}
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			if p.Call != nil {
				require.Equal(t, llm.RoleAssistant, m.Role)
				calls[p.Call.ID] = true
			}
		}
		require.True(t, m.Role != llm.RoleTool || calls[m.CallID], "a result without its call")
	}
	require.GreaterOrEqual(t, tokens.Bound(req), tokens.Estimate(req))
}

// FuzzDecoder checks that no stream makes the decoder break the rules of events, and that the finish comes last
// and once, or an error instead. golden is the file of a whole stream; each seed is the data of a stream's events.
func FuzzDecoder(fuzz *testing.F, f Family, golden string, seeds ...[]string) {
	stream, err := os.ReadFile(golden)
	require.NoError(fuzz, err)
	fuzz.Add(stream)
	for _, events := range seeds {
		var stream []byte
		for _, s := range events {
			stream = sse.Append(stream, "", []byte(s))
		}
		fuzz.Add(stream)
	}
	fuzz.Fuzz(func(t *testing.T, stream []byte) {
		order := accepted(t)
		d := f.NewDecoder(func(ev llm.Event) error {
			require.NoError(t, order.Check(ev))
			if ev.State != nil && f.EncodeRequest != nil {
				requireReturned(t, f, ev)
			}
			return nil
		})
		reader := sse.NewReader(bytes.NewReader(stream), 1<<16)
		for {
			ev, err := reader.Next()
			if err != nil || d.Data(ev.Data) != nil {
				break
			}
		}
		require.Equal(t, d.Close() == nil, order.Finished())
	})
}

// requireReturned checks that what a call came with goes back with it, as JSON.
func requireReturned(t *testing.T, f Family, call llm.Event) {
	req := &llm.Request{MaxTokens: 100, Messages: []llm.Message{
		{Role: llm.RoleAssistant, Parts: []llm.Part{{Call: &llm.ToolCall{ID: call.ID, Name: call.Name}}}},
		{Role: llm.RoleTool, CallID: call.ID, Parts: []llm.Part{llm.Text("x")}}}}
	req.States = map[string][]byte{call.ID: call.State}
	sent, err := f.EncodeRequest(nil, req)
	require.NoError(t, err)
	require.True(t, json.Valid(sent), "%q", sent)
}

// BenchmarkDecode measures how requests of real clients are read.
func BenchmarkDecode(b *testing.B, f Family) {
	for name, body := range captures(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				doc, err := families.Parse([]byte(body))
				require.Nil(b, err)
				_, _ = f.Server.Decode(doc, families.Rules{})
			}
		})
	}
}

// BenchmarkText measures how a piece of text is written.
func BenchmarkText(b *testing.B, f Family) {
	e := f.NewEncoder()
	out := e.AppendStart(nil)
	ev := Say(" a few words of text")[0]
	b.ReportAllocs()
	for b.Loop() {
		out = e.AppendEvent(out[:0], ev)
	}
}
