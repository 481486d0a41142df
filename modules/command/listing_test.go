package command

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListing(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	l := newListing(&b, column{title: "NAME"}, column{"NUMBER", right}, column{title: "NOTE"})
	require.NoError(t, l.add("ann", "1", ""))
	require.NoError(t, l.add("bö", "1,234,567", "x"))
	require.Empty(t, b.String(), "the widths are not known yet")
	require.NoError(t, l.end())
	require.Equal(t, "NAME     NUMBER  NOTE\nann           1\nbö    1,234,567  x\n", b.String())
}

func TestListingOfAnyLength(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	l := newListing(&b, column{"N", right}, column{title: "NAME"})
	for i := range 20_000 {
		require.NoError(t, l.add(strconv.Itoa(i), "a"))
		require.LessOrEqual(t, len(l.waiting), sampleRows+1, "few rows are kept")
	}
	require.NoError(t, l.add("123456", "longer"), "a wider cell comes late")
	require.NoError(t, l.add("1", "a"))
	require.NoError(t, l.end())
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	require.Len(t, lines, 20_003)
	require.Equal(t, "  0  a", lines[1])
	require.Equal(t, "123456  longer", lines[20_001])
	require.Equal(t, "     1  a", lines[20_002])
}
