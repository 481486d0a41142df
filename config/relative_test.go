package config

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLikeSized: of an unknown line the newest model of the nearest size is what it is compared with, and none that
// is more than 1.6 times as large, or as small.
func TestLikeSized(t *testing.T) {
	t.Parallel()
	newest := map[float64]string{} // release, by size
	for _, k := range knownModels().rows {
		if l, ok := lineageOf(ParseModelName(k.name).Name); ok && l.size > 0 {
			newest[l.size] = max(newest[l.size], k.released)
		}
	}
	require.Greater(t, len(newest), 10)
	for size, released := range newest {
		found := likeSized(fmt.Sprintf("nobodys-line:%gb", size))
		require.NotNil(t, found, size)
		l, _ := lineageOf(ParseModelName(found.name).Name)
		require.InDelta(t, size, l.size, 0)
		require.Equal(t, released, found.released, size)
	}
	require.Nil(t, likeSized("nobodys-line:90000b"))
	require.Nil(t, likeSized("nobodys-line:0.01b"))
	require.Nil(t, likeSized("nobodys-line"))
}

// TestRelativeOf: a model of the table is the nearest to itself, or one of its version and size that is as new.
func TestRelativeOf(t *testing.T) {
	t.Parallel()
	for _, k := range knownModels().rows {
		of, ok := lineageOf(ParseModelName(k.name).Name)
		if !ok {
			continue
		}
		found, ok := relativeOf(k.name)
		require.True(t, ok, k.name)
		l, _ := lineageOf(ParseModelName(found.name).Name)
		require.Equal(t, of.line, l.line)
		require.Zero(t, l.apart(of), k.name)
		require.True(t, found.alike, k.name)
		require.GreaterOrEqual(t, found.released, k.released, k.name)
		if of.version > 0 && l.version > 0 {
			require.InDelta(t, of.version, l.version, 0, k.name)
		}
	}
}

// TestSplitSentence: a cell has a text that is short whole, and of another the first sentence.
func TestSplitSentence(t *testing.T) {
	t.Parallel()
	text := func(n int) string { return fmt.Sprintf("%0*d", n, 0) }
	for name, c := range map[string]struct{ doc, first, rest string }{
		"as long as may be":      {text(shortDoc), text(shortDoc), ""},
		"at a full stop":         {"One. " + text(shortDoc), "One.", text(shortDoc)},
		"not in backquotes":      {"`a. b` c. " + text(shortDoc), "`a. b` c.", text(shortDoc)},
		"else at a semicolon":    {"One; " + text(shortDoc), "One.", text(shortDoc)},
		"a full stop before one": {"One; two. " + text(shortDoc), "One; two.", text(shortDoc)},
		"as far as may be":       {text(2*shortDoc) + ". Two.", text(2*shortDoc) + ".", "Two."},
		"further":                {text(2*shortDoc+1) + ". Two.", text(2*shortDoc+1) + ". Two.", ""},
	} {
		first, rest := splitSentence(c.doc)
		require.Equal(t, []string{c.first, c.rest}, []string{first, rest}, name)
	}
}
