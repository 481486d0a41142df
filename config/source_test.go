package config

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/require"
)

// What is permitted piece by piece, in any order and more than once, is permitted as a whole.
func TestShownPiecesJoin(t *testing.T) {
	t.Parallel()
	s := &source{text: []byte("abc = def ghi")}
	s.lex()
	for _, r := range [][2]int{{8, 9}, {6, 7}, {7, 8}, {6, 8}, {0, 3}, {1, 2}} {
		s.show(hcl.Range{Start: hcl.Pos{Byte: r[0]}, End: hcl.Pos{Byte: r[1]}})
	}
	s.seal()
	require.Equal(t, []span{{0, 3}, {6, 9}}, s.shown)
	for i, want := range []bool{true, true, true, false} { // abc = def ghi
		require.Equal(t, want, s.visible(&s.tokens[i]), "token %d", i)
	}
}

func TestLineOfOffset(t *testing.T) {
	t.Parallel()
	s := &source{text: []byte("ab\r\ncd\n\nef")}
	for offset, want := range map[int]span{
		-1: {0, 2}, 0: {0, 2}, 3: {0, 2}, 4: {4, 6}, 6: {4, 6}, 7: {7, 7}, 8: {8, 10}, 10: {8, 10}, 99: {8, 10},
	} {
		start, end := s.line(offset)
		require.Equal(t, want, span{start, end}, "offset %d", offset)
	}
}
