package ledger_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"regexp"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func TestNewKey(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string][]byte{
		"zeros":  make([]byte, 32),
		"ones":   bytes.Repeat([]byte{0xff}, 32),
		"random": random(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, hash, err := ledger.NewKey(bytes.NewReader(secret))
			require.NoError(t, err)
			require.Regexp(t, regexp.MustCompile(`^`+ledger.KeyPattern+`$`), text)
			require.Equal(t, sha256.Sum256([]byte(text)), hash)
			got, ok := ledger.ParseKey(text)
			require.True(t, ok)
			require.Equal(t, hash, got)
			require.Equal(t, text[len(text)-4:], ledger.Last4(text))
		})
	}
	_, _, err := ledger.NewKey(iotest.ErrReader(errors.New("no entropy")))
	require.ErrorContains(t, err, "no entropy")
	_, _, err = ledger.NewKey(bytes.NewReader(make([]byte, 31)))
	require.Error(t, err, "a key of fewer bits is not made")
}

// AUTH-11: the gateway refuses a mistyped key without asking the store. CRC-32 finds every single changed
// character and every two neighbours that changed places.
func TestParseKeyRefuses(t *testing.T) {
	t.Parallel()
	text, _, err := ledger.NewKey(bytes.NewReader(random(t)))
	require.NoError(t, err)
	for i := range len(text) {
		for _, c := range []byte("0aZ_-") {
			if text[i] == c {
				continue
			}
			wrong := []byte(text)
			wrong[i] = c
			_, ok := ledger.ParseKey(string(wrong))
			require.False(t, ok, "character %d", i)
		}
		if i > 0 && text[i] != text[i-1] {
			wrong := []byte(text)
			wrong[i], wrong[i-1] = wrong[i-1], wrong[i]
			_, ok := ledger.ParseKey(string(wrong))
			require.False(t, ok, "characters %d and %d", i-1, i)
		}
	}
	for _, wrong := range []string{"", "fwk_", text + "0", text[:len(text)-1], " " + text, text[1:] + "0",
		"sk-" + text[3:]} {
		_, ok := ledger.ParseKey(wrong)
		require.False(t, ok, "%q", wrong)
	}
}

func FuzzParseKey(f *testing.F) {
	text, _, err := ledger.NewKey(bytes.NewReader(make([]byte, 32)))
	require.NoError(f, err)
	f.Add(text)
	f.Add("fwk_")
	f.Add("")
	pattern := regexp.MustCompile(`^` + ledger.KeyPattern + `$`)
	f.Fuzz(func(t *testing.T, text string) {
		if hash, ok := ledger.ParseKey(text); ok {
			require.Regexp(t, pattern, text)
			require.Equal(t, sha256.Sum256([]byte(text)), hash)
		}
	})
}

func TestLast4OfShortText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ab", ledger.Last4("ab"))
}

func random(t *testing.T) []byte {
	b := make([]byte, 32)
	_, err := rand.Read(b)
	require.NoError(t, err)
	return b
}
