package history

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func kept(hash string) Kept {
	text := "gateway {} # " + hash
	return Kept{Since: time.Unix(1_800_000_000, 0).UTC(), Hash: hash,
		Files: []File{{Path: "/etc/gateway.hcl", Text: &text}, {Path: "/etc/key"}}}
}

// TestHistory: the last 20 configurations that were in force are kept with their time.
func TestHistory(t *testing.T) {
	t.Parallel()
	require.Equal(t, 20, Size)
	data := t.TempDir()
	h := In(data)
	list, err := h.List()
	require.NoError(t, err)
	require.Empty(t, list)
	_, err = h.Get(1)
	require.ErrorIs(t, err, ErrNotKept)
	require.ErrorContains(t, err, "configuration 1 is not kept")

	first, err := h.Add(kept("a"))
	require.NoError(t, err)
	require.EqualValues(t, 1, first.Number)
	again := kept("a")
	again.Since = again.Since.Add(time.Hour)
	again, err = h.Add(again)
	require.NoError(t, err)
	require.Equal(t, first, again, "what goes on being in force is so since then")

	h = In(data) // as after a restart
	for i := 2; i <= Size+5; i++ {
		k, err := h.Add(kept(fmt.Sprint("b", i%2)))
		require.NoError(t, err)
		require.EqualValues(t, i, k.Number, "what comes back is in force once more")
	}
	list, err = h.List()
	require.NoError(t, err)
	require.Len(t, list, Size)
	require.EqualValues(t, 6, list[0].Number)
	require.EqualValues(t, Size+5, list[Size-1].Number)
	want := kept("b0")
	want.Number = 6
	require.Equal(t, want, list[0])
	got, err := h.Get(6)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, map[string]*string{"/etc/gateway.hcl": new("gateway {} # b0")}, got.Texts(), "nothing of a secret")
	_, err = h.Get(5)
	require.ErrorIs(t, err, ErrNotKept)

	dir := filepath.Join(data, "configurations")
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	info, err = os.Stat(filepath.Join(dir, "6.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestDamagedAndForeignFiles(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	h := In(data)
	_, err := h.Add(kept("a"))
	require.NoError(t, err)
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(data, "configurations", name), []byte(text), 0o600))
	}
	write("2.json", `{"number": 2, "since"`)
	write("3.json", `{"number": 4, "files": [{"path": "/x", "text": ""}]}`)
	write("4.json", `{"number": 4, "files": []}`)
	for _, name := range []string{"0.json", "-1.json", "x.json", "5", ".6.json.123"} {
		write(name, "not ours")
	}
	list, err := h.List()
	require.Len(t, list, 1)
	for _, name := range []string{"2.json", "3.json", "4.json"} {
		require.ErrorContains(t, err, name+" is damaged: remove it")
	}
	require.NotContains(t, err.Error(), "x.json")

	k, err := h.Add(kept("a"))
	require.NoError(t, err)
	require.EqualValues(t, 5, k.Number, "what is damaged is no reason to keep nothing")
}

func TestFolderThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, "configurations"), nil, 0o600))
	h := In(data)
	_, err := h.Add(kept("a"))
	require.ErrorContains(t, err, "reading the kept configurations")
	_, err = h.List()
	require.Error(t, err)
	_, err = h.Get(1)
	require.ErrorContains(t, err, "reading a kept configuration")
}
