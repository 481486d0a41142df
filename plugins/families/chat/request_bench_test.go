package chat_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
)

// conversation is a request of so many bytes: plain, or as a coding agent sends it, with a tool call in each turn.
func conversation(size int, agent bool) []byte {
	const turn = "The lighthouse keeper wrote down the wind, the height of the waves and every ship that passed. "
	said := strings.Repeat(turn, 11)
	if agent {
		said = strings.Repeat("\tif err != nil {\\n\\t\\treturn fmt.Errorf(\\\"reading: %w\\\", err)\\n\\t}\\n", 16)
		said = strings.ReplaceAll(said, "\t", "\\t")
	}
	var b strings.Builder
	b.WriteString(`{"model":"service/auto","max_tokens":400,` +
		`"messages":[{"role":"system","content":"You answer briefly."},`)
	for n := 0; b.Len()+len(said) < size; n++ {
		if agent {
			fmt.Fprintf(&b, `{"role":"assistant","content":"I see.\n","tool_calls":[{"id":"call_%d","type":"function",`+
				`"function":{"name":"edit","arguments":"{\"path\":\"main.go\",\"text\":\"a\\nb\"}"}}]},`+
				`{"role":"tool","tool_call_id":"call_%d","content":"%s"},`, n, n, said)
			continue
		}
		fmt.Fprintf(&b, `{"role":"user","content":"%s"},{"role":"assistant","content":"I see.\n"},`, said)
	}
	fmt.Fprintf(&b, `{"role":"user","content":"%s"}]}`, said)
	return []byte(b.String())
}

// BenchmarkWay measures the way of a request from the client's body to the upstream's, of one dialect.
func BenchmarkWay(b *testing.B) {
	for _, size := range []int{1200, 20 << 10, 200 << 10} {
		for _, kind := range []string{"plain", "agent"} {
			body := conversation(size, kind == "agent")
			b.Run(fmt.Sprintf("%s-%d", kind, size), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					doc, refusal := families.Parse(body)
					if refusal != nil {
						b.Fatal(refusal.Message)
					}
					req, refusal := chat.Server{}.Decode(doc, families.Rules{})
					if refusal != nil {
						b.Fatal(refusal.Message)
					}
					if _, err := chat.EncodeRequest(nil, req.LLM); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
