package human_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/human"
)

// TestScreen: whatever pieces a text comes in, it is shown alike.
func TestScreen(t *testing.T) {
	t.Parallel()
	const text = "é\x1b[2J\u202e日本\n\u009bnext\x07\n"
	const shown = `é\x1b[2J\u202e日本` + "\n" + `\u009bnext\a` + "\n"
	for size := 1; size <= len(text); size++ {
		var b bytes.Buffer
		w := human.Screen(&b)
		for at := 0; at < len(text); at += size {
			n, err := io.WriteString(w, text[at:min(at+size, len(text))])
			require.NoError(t, err)
			require.Equal(t, min(size, len(text)-at), n)
		}
		require.Equal(t, shown, b.String())
	}
}
