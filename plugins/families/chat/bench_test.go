package chat_test

import (
	"testing"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
)

func BenchmarkDecode(b *testing.B) {
	for name, body := range seeds(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				doc, err := families.Parse(body)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = chat.Server{}.Decode(doc, families.Rules{})
			}
		})
	}
}
