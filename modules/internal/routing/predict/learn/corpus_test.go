package learn

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"flag"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write what is made of the folder graded anew")

// pack packs the folder graded, the same each time.
func pack(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	dir := os.DirFS("graded")
	var files []string
	require.NoError(t, fs.WalkDir(dir, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".jsonl") {
			files = append(files, path)
		}
		return err
	}))
	slices.Sort(files)
	for _, file := range files {
		text, err := fs.ReadFile(dir, file)
		require.NoError(t, err)
		w, err := z.CreateHeader(&zip.FileHeader{Name: file, Method: zip.Deflate})
		require.NoError(t, err)
		_, err = w.Write(text)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return b.Bytes()
}

// TestBuiltInCorpus: what the program trains with is the folder graded, and what tells the frames of questions was made
// of it. After a change: go test ./... -run TestBuiltInCorpus -update, twice.
func TestBuiltInCorpus(t *testing.T) {
	t.Parallel()
	const frames = "../frame.model"
	now := pack(t)
	if *update {
		require.NoError(t, os.WriteFile("corpus.zip", now, 0o600))
		c, err := ReadCorpus(os.DirFS("graded"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(frames, TrainFrames(c, 1), 0o600))
		return
	}
	require.True(t, bytes.Equal(now, packed), "pack it again: go test . -run TestBuiltInCorpus -update")
	c, err := BuiltInCorpus()
	require.NoError(t, err)
	require.Greater(t, len(c.Prompts), 1700)
	have, err := os.ReadFile(frames)
	require.NoError(t, err)
	require.True(t, bytes.Equal(TrainFrames(c, 1), have), "make it again: go test . -run TestBuiltInCorpus -update")
}
