package rules

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// BenchmarkMatch: what looking at a text takes, by the number of terms, in bytes a second. The pattern's word is not in
// the text.
func BenchmarkMatch(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		w := make([]byte, 3+random.IntN(9))
		for i := range w {
			w[i] = byte('a' + random.IntN(26))
		}
		return string(w)
	}
	var english strings.Builder
	for english.Len() < 200<<10 {
		english.WriteString(word())
		english.WriteByte(' ')
	}
	for _, text := range []struct{ name, text string }{
		{"ascii", english.String()}, {"cjk", strings.Repeat("今日はとても良い天気ですね。", 200<<10/42)},
		{"cyrillic", strings.Repeat("сегодня очень хорошая погода ", 200<<10/54)},
	} {
		for _, terms := range []int{100, 10_000} {
			rule := Rule{Name: "r", Action: Block, Patterns: []string{`(?i)password\s*[:=]\s*\S+`}}
			seen := map[string]bool{}
			for len(rule.Terms) < terms {
				if w := word() + " q" + word(); !seen[w] {
					seen[w] = true
					rule.Terms = append(rule.Terms, w)
				}
			}
			set := compiled(b, rule)
			b.Run(fmt.Sprintf("%s/terms=%d", text.name, terms), func(b *testing.B) {
				b.SetBytes(int64(len(text.text)))
				b.ReportAllocs()
				var t Search
				for b.Loop() {
					t.Begin(set)
					t.Add(text.text)
					if hits, _ := t.Hits(); len(hits) > 0 {
						b.Fatal("found")
					}
				}
			})
		}
	}
}

// BenchmarkCompile: what loading the rules takes.
func BenchmarkCompile(b *testing.B) {
	rule := Rule{Name: "r", Action: Block}
	for i := range 10_000 {
		rule.Terms = append(rule.Terms, fmt.Sprintf("term number %d", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		compiled(b, rule)
	}
}
