package tokens

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The corpora: texts of our own, of about 2 KB but for German and Russian.
var corpora = []struct {
	class, file string
	off         float64 // how far the estimate may be off
}{
	{"English prose", "prose.txt", 0.02},
	{"code", "code.txt", 0.02},
	{"JSON tool schemas, in one line", "tools.json", 0.02},
	{"JSON schemas, indented", "schema.json", 0.02},
	{"Chinese", "chinese.txt", 0.04},
	{"Japanese", "japanese.txt", 0.04},
	{"Korean", "korean.txt", 0.04},
	{"German", "german.txt", 0.05},
	{"Russian", "russian.txt", 0.05},
	{"Arabic", "arabic.txt", 0.02},
	{"Hindi", "hindi.txt", 0.02},
	{"Thai", "thai.txt", 0.05},
}

func corpus(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	return string(text)
}

// real counts the tokens of a text in both vocabularies.
func real(t require.TestingT, text string) (o, cl int64) {
	n, err := o200k().Count(text)
	require.NoError(t, err)
	m, err := cl100k().Count(text)
	require.NoError(t, err)
	return int64(n), int64(m)
}

func TestTextIsNearO200k(t *testing.T) {
	t.Parallel()
	for _, tt := range corpora {
		t.Run(tt.class, func(t *testing.T) {
			t.Parallel()
			text := corpus(t, tt.file)
			o, _ := real(t, text)
			require.InEpsilon(t, o, Text(text), tt.off)
		})
	}
}

func TestTextOfATokenIsOne(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"a", " the", " function", "();\n", "\n\n", "        ", "123", " 世", "です", "입니다",
		" été"} {
		n, err := o200k().Count(token)
		require.NoError(t, err)
		require.Equal(t, 1, n, "%q is a token", token)
		require.EqualValues(t, 1, Text(token), "%q", token)
	}
}

// BenchmarkText prints, beside the speed, by how many per cent the estimate of each class is off.
func BenchmarkText(b *testing.B) {
	for _, tt := range corpora {
		b.Run(tt.class, func(b *testing.B) {
			text := corpus(b, tt.file)
			o, _ := real(b, text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var n int64
			for b.Loop() {
				n = Text(text)
			}
			b.ReportMetric(100*math.Abs(float64(n)/float64(o)-1), "%-off")
		})
	}
}

// BenchmarkTextOfHostileInput is what the worst texts that we know of cost.
func BenchmarkTextOfHostileInput(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct{ name, alphabet string }{
		{"letters in no order", "abcdefghijklmnopqrstuvwxyz"},
		{"marks in no order", "!@#$%^&*()_+-=[]{};:,.<>?|~"},
		{"rare ideographs", "龘靐齉爩鱻麤龗灪吁龖厵滟爨癵籱饢驫"},
		{"one control character", "\x00"},
	} {
		b.Run(tt.name, func(b *testing.B) {
			alphabet := []rune(tt.alphabet)
			text := make([]rune, 20_000)
			for i := range text {
				text[i] = alphabet[random.IntN(len(alphabet))]
			}
			hostile := string(text)
			b.SetBytes(int64(len(hostile)))
			for b.Loop() {
				Text(hostile)
			}
		})
	}
}

// BenchmarkBound prints, beside the speed, how many times the real count the bound of each class is.
func BenchmarkBound(b *testing.B) {
	for _, tt := range corpora {
		b.Run(tt.class, func(b *testing.B) {
			text := corpus(b, tt.file)
			o, cl := real(b, text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var n int64
			for b.Loop() {
				n = boundText(text)
			}
			b.ReportMetric(float64(n)/float64(max(o, cl)), "x-real")
		})
	}
}
