package rules

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// BenchmarkMatch: what looking at a text takes, by the number of terms, in bytes a second. The pattern's word is not
// in the text.
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

// BenchmarkWorst: what a byte of a hostile text costs, in nanoseconds and in bytes of memory. Compare them with those
// of "english": none should take far more.
func BenchmarkWorst(b *testing.B) {
	set := compiled(b, Rule{Name: "terms", Action: Block, Terms: []string{"pipe bomb", "bomb squad", "炸弹", "nitro"}},
		Rule{Name: "allowed", Action: Allow, Terms: []string{"bath bomb", "bomb cyclone"}},
		Rule{Name: "patterns", Action: Block, Patterns: []string{`\d{3}-\d{2}-\d{4}x`, `(?i)secret[ _-]?(key|token)=`}})
	for _, text := range []struct{ name, unit string }{
		{"english", "it was a bright cold day in april "}, {"FDFA", "\ufdfa"}, {"squares", "\u3316"}, {"marks", "\u0301"},
		{"marks on letters", "a\u0301\u0323\u0336"}, {"a letter", "a"}, {"an accented letter", "é"}, {"spelled", "a "},
		{"spelled with dots", "b.o.m."}, {"spelled in Chinese", "炸 "}, {"rows", "b o m b\n"}, {"lookalikes", "сор "},
		{"mixed", "сop "}, {"one mixed word", "сo"}, {"tags", "\U000e0062"}, {"flags", "\U0001f1e7"}, {"zeros", "\x00"},
		{"zeros in words", "a\x00"},
		{"zero width", "\u200b"}, {"damaged", "\xff"}, {"ampersands", "&"}, {"entities", "&amp;"},
		{"unknown entities", "&aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa;"}, {"nested entities", "amp;"}, {"numbers", "&#98;"},
		{"backslashes", `\`}, {"escapes", `\u0062`}, {"nested escapes", `\\\u0062`}, {"halves of pairs", `\ud83d`},
		{"halves before backslashes", `\ud83d\\\\\\`}, {"line ends", `\n`},
		{"hyphens", "a-"}, {"a term", "bomb "}, {"an allowed term", "bath bomb "}, {"almost a pattern", "123-45-6789 "},
		{"a part of a pattern", "secret "}, {"Hangul in parts", "\u1111\u1169\u11a8"},
	} {
		b.Run(text.name, func(b *testing.B) {
			s := "&" + strings.Repeat(text.unit, (1<<20)/len(text.unit))
			b.ReportAllocs()
			for b.Loop() {
				var t Search
				t.Begin(set)
				t.Add(s)
				t.Hits()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s)), "ns/byte")
		})
	}
	for name, document := range map[string]string{"values": `"a",`, "open values": `"`, "names": `"type":"b",`,
		"escaped quotes": `\"`, "values of a word": `"pipe","bomb",`} {
		b.Run("document of "+name, func(b *testing.B) {
			s := "[" + strings.Repeat(document, (1<<20)/len(document)) + "]"
			b.ReportAllocs()
			for b.Loop() {
				var t Search
				t.Begin(set)
				t.AddJSON(s)
				t.Hits()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s)), "ns/byte")
		})
	}
	b.Run("messages of a letter", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var t Search
			t.Begin(set)
			for range 1 << 16 {
				t.Add("a")
				t.Break()
			}
			t.Hits()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(1<<16), "ns/message")
	})
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
