package messages_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/messages"
)

func BenchmarkDecode(b *testing.B) {
	body := []byte(captures(b)["claude-apikey-2"])
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		doc, err := families.Parse(body)
		require.Nil(b, err)
		_, err = messages.Server{}.Decode(doc, families.Rules{})
		require.Nil(b, err)
	}
}

func BenchmarkDelta(b *testing.B) {
	e := newEncoder()
	out := e.AppendStart(nil)
	ev := say(" a few words of text")[0]
	b.ReportAllocs()
	for b.Loop() {
		out = e.AppendEvent(out[:0], ev)
	}
}
