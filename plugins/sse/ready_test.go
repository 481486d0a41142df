package sse_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/sse"
)

// meter is a source that hands out given pieces and counts how often it is asked.
type meter struct {
	pieces []string
	asked  int
}

func (m *meter) Read(p []byte) (int, error) {
	m.asked++
	if len(m.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, m.pieces[0])
	if m.pieces[0] = m.pieces[0][n:]; m.pieces[0] == "" {
		m.pieces = m.pieces[1:]
	}
	return n, nil
}

func TestReadyIsWhetherNextReads(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom(
			[]string{
				"data: a",
				"data",
				"data:x",
				"event: e",
				": comment",
				"id: 7",
				"",
				"",
				"databank: x",
				"\xEF\xBB\xBFdata: b",
			},
		)
		end := rapid.SampledFrom([]string{"\n", "\r\n", "\r"})
		m := &meter{}
		for range rapid.IntRange(1, 6).Draw(t, "pieces") {
			piece := ""
			for range rapid.IntRange(1, 5).Draw(t, "lines") {
				piece += line.Draw(t, "line") + end.Draw(t, "end")
			}
			if cut := rapid.IntRange(0, len(piece)).Draw(t, "cut"); rapid.Bool().Draw(t, "is cut") {
				piece = piece[:cut]
			}
			if piece != "" {
				m.pieces = append(m.pieces, piece)
			}
		}
		r := sse.NewReader(m, 1<<10)
		for {
			ready, before, ended := r.Ready(), m.asked, len(m.pieces) == 0
			_, err := r.Next()
			if !ended { // the end of the source needs to be seen
				require.Equal(t, ready, m.asked == before)
			}
			if ready {
				require.Equal(t, before, m.asked, "it said that it would not read")
			}
			if err != nil {
				return
			}
		}
	})
}
