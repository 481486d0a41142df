package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestChunks(t *testing.T) {
	t.Parallel()
	for wire, want := range map[string]string{
		"0\r\n\r\n":           "",
		"1\r\na\r\n0\r\n\r\n": "a",
		"A \r\n0123456789\r\n1;x=\"y\"\r\na\r\n000\r\nT: x\r\n\r\n": "0123456789a",
	} {
		for _, r := range []io.Reader{strings.NewReader(wire), iotest.OneByteReader(strings.NewReader(wire))} {
			c := &chunked{r: bufio.NewReader(r)}
			got, err := io.ReadAll(c)
			require.NoError(t, err)
			require.Equal(t, want, string(got))
			_, err = c.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err)
		}
	}
	for _, wire := range []string{
		"\r\n", "x\r\n", "-1\r\na\r\n", "+1\r\na\r\n", " 1\r\na\r\n", "0x1\r\na\r\n", ";\r\n", "8000000000000000\r\n",
		"1\na\r\n0\r\n\r\n", "1\r\nab\r\n0\r\n\r\n", "1\r\na\n0\r\n\r\n", "1\r\na0\r\n\r\n", "0\r\nx: y\n\r\n",
		"1;" + strings.Repeat("x", 5<<10) + "\r\na\r\n0\r\n\r\n", "0\r\n" + strings.Repeat("x: y\r\n", 4<<10) + "\r\n",
	} {
		_, err := io.ReadAll(&chunked{r: bufio.NewReader(strings.NewReader(wire))})
		require.ErrorIs(t, err, errChunk, wire)
	}
	for whole, n := "2\r\nab\r\n0\r\nx: y\r\n\r\n", 0; n < len(whole); n++ {
		_, err := io.ReadAll(&chunked{r: bufio.NewReader(strings.NewReader(whole[:n]))})
		require.Equal(t, io.ErrUnexpectedEOF, err, whole[:n])
	}
}

// TestExtensionsAreBounded: a peer that sends next to nothing but extensions of chunks is not read for ever, and one
// whose extensions are long for once, or small beside their chunks, is.
func TestExtensionsAreBounded(t *testing.T) {
	t.Parallel()
	chunk := func(size, extension int) string {
		return fmt.Sprintf("%x;%s\r\n%s\r\n", size, strings.Repeat("x", extension), strings.Repeat("a", size))
	}
	for _, tt := range []struct {
		size, extension int
		taken           bool
	}{
		{1, 4000, false}, {1, 100, false}, {1, 10, true}, {1, 15, true}, {100, 200, true}, {100, 400, false},
		{1 << 16, 4000, true},
	} {
		src := &endless{text: chunk(tt.size, tt.extension)}
		n, err := io.CopyN(io.Discard, &chunked{r: bufio.NewReader(src)}, int64(tt.size)*2000)
		if tt.taken {
			require.NoError(t, err, "%v", tt)
			continue
		}
		require.ErrorIs(t, err, errChunk, "%v", tt)
		require.Less(t, src.read, maxWaste*3, "%v", tt)
		require.Less(t, n, int64(tt.size)*2000)
	}
	rare := strings.Repeat(chunk(1, 4000), 4)
	got, err := io.ReadAll(&chunked{r: bufio.NewReader(strings.NewReader(rare + "0\r\n\r\n"))})
	require.NoError(t, err, "what is within the bound is taken")
	require.Equal(t, "aaaa", string(got))
}

// endless repeats a text, and counts what was read of it.
type endless struct {
	text string
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.read%len(e.text):])
	e.read += n
	return n, nil
}

// FuzzChunks: what is taken is what net/http takes, and where ready says so nothing is waited for.
func FuzzChunks(f *testing.F) {
	f.Add([]byte("1\r\na\r\n0\r\n\r\n"), 3)
	f.Add([]byte("3;x\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nT: x\r\n\r\n"), 7)
	f.Add([]byte("2\r\na"), 1)
	f.Fuzz(func(t *testing.T, wire []byte, room int) {
		got, err := io.ReadAll(&chunked{r: bufio.NewReader(bytes.NewReader(wire))})
		if err == nil {
			want, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(wire)))
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		buf := make([]byte, 1+uint(room)%64)
		for cut := range min(len(wire), 64) {
			reader := bufio.NewReader(io.MultiReader(bytes.NewReader(wire[:cut]), iotest.ErrReader(errWaited)))
			_, _ = reader.Peek(cut)
			c := &chunked{r: reader}
			for {
				b, _ := reader.Peek(reader.Buffered())
				if !c.ready(b) {
					break
				}
				_, err := c.Read(buf)
				require.NotErrorIs(t, err, errWaited, fmt.Sprintf("%q", wire[:cut]))
				if err != nil {
					require.True(t, errors.Is(err, io.EOF) || errors.Is(err, errChunk), err)
					break
				}
			}
		}
	})
}
