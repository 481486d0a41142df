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
