package bedrock

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

// FuzzDocument: schemas and arguments reach Bedrock as they are, written the same way each time.
func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"b":[1.50,{},[],null,"",false,0],"a":12345678901234567890,"c":{"d":"\ud83d\ude00"}}`))
	f.Add([]byte(`{"":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		first, err := documentOf(raw)
		if err != nil {
			return
		}
		written, err := first.MarshalSmithyDocument()
		if err != nil {
			return // a member without a name
		}
		second, err := documentOf(written)
		require.NoError(t, err)
		again, err := second.MarshalSmithyDocument()
		require.NoError(t, err)
		require.Equal(t, string(written), string(again))
		require.Equal(t, read(t, raw), read(t, written))
	})
}

func read(t *testing.T, raw []byte) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return v
}

// FuzzProfile: of a file, only what stands in the section counts.
func FuzzProfile(f *testing.F) {
	f.Add("[default]\naws_access_key_id=a\n[x]\naws_access_key_id = b", "x")
	f.Add("[profile x]\r\n; a = 1\r\nA=b=c", "x")
	f.Fuzz(func(t *testing.T, text, section string) {
		for name, value := range sectionOf(text, section) {
			require.Contains(t, text, value)
			require.NotContains(t, name, "=")
		}
		require.Empty(t, sectionOf("[other]\n"+"a = b", "x"))
	})
}

// TestReasoningOfAState: GAP-117. Blocks that can be sent back are those with a signature or with something encrypted.
func TestReasoningOfAState(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		block thought
		sent  bool
	}{
		{thought{Text: "t", Signature: "s"}, true}, {thought{Signature: "s"}, true}, {thought{Text: "t"}, false},
		{thought{Encrypted: []byte{1}}, true}, {thought{Encrypted: []byte("more")}, true}, {thought{}, false},
	} {
		raw, err := json.Marshal(tt.block)
		require.NoError(t, err)
		require.Equal(t, tt.sent, len(reasoning([][]byte{[]byte("{"), raw})) == 1, "%s", raw)
	}
}

// TestCalledTools: a tool that was called is told of once, however often it was.
func TestCalledTools(t *testing.T) {
	t.Parallel()
	call := func(name string) llm.Part { return llm.Part{Call: &llm.ToolCall{Name: name}} }
	tools := calledTools([]llm.Message{{Parts: []llm.Part{llm.Text("x"), call("f"), call("g")}},
		{Parts: []llm.Part{call("f")}}})
	require.Len(t, tools, 2)
	require.Equal(t, []string{"f", "g"}, []string{tools[0].Name, tools[1].Name})
}
