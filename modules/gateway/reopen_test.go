package gateway

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"
)

// TestALogFileIsOpenedAnew: what is written while a file is renamed and opened anew, time after time, is whole in
// one of them.
func TestALogFileIsOpenedAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := new(FileWriter)
	w.Filename = filepath.Join(dir, "fareway.log")
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	require.NoError(t, w.Provision(ctx))
	file, err := w.OpenWriter()
	require.NoError(t, err)
	const writers, lines, renames = 4, 500, 20
	var done sync.WaitGroup
	for n := range writers {
		done.Go(func() {
			for i := range lines {
				_, err := fmt.Fprintf(file, "%d-%d\n", n, i)
				if err != nil {
					panic(err)
				}
			}
		})
	}
	for i := range renames {
		require.NoError(t, os.Rename(w.Filename, fmt.Sprint(w.Filename, ".", i)))
		require.NoError(t, file.(*reopenedFile).reopen())
		require.FileExists(t, w.Filename, "it is there at once, for who follows it")
	}
	done.Wait()
	info, err := os.Stat(w.Filename)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.NoError(t, file.Close())
	require.NoError(t, file.Close(), "twice is no error")
	_, err = file.Write(nil)
	require.ErrorIs(t, err, errClosed)
	seen := make(map[string]int)
	all, err := filepath.Glob(w.Filename + "*")
	require.NoError(t, err)
	require.Len(t, all, renames+1)
	for _, path := range all {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			seen[line]++
		}
	}
	require.Len(t, seen, writers*lines)
	for line, times := range seen {
		require.Equal(t, 1, times, line)
	}
}

type fakeFile struct {
	strings.Builder
	closed int
	err    error
}

func (f *fakeFile) Close() error {
	f.closed++
	return f.err
}

// TestALogFileThatCannotBeOpenedGoesOn: and the others are opened anew all the same.
func TestALogFileThatCannotBeOpenedGoesOn(t *testing.T) {
	t.Parallel()
	list := reopenedFiles{all: make(map[*reopenedFile]struct{})}
	var made []*fakeFile
	refuse := errors.New("no room")
	var why error
	open := func() (io.WriteCloser, error) {
		if why != nil {
			return nil, why
		}
		made = append(made, new(fakeFile))
		return made[len(made)-1], nil
	}
	first, err := list.open("one.log", open)
	require.NoError(t, err)
	require.NoError(t, list.reopen())
	require.Equal(t, 1, made[0].closed)
	why = refuse
	err = list.reopen()
	require.ErrorIs(t, err, refuse)
	require.ErrorContains(t, err, "one.log")
	_, err = io.WriteString(first, "on")
	require.NoError(t, err)
	require.Equal(t, "on", made[1].String())
	require.Zero(t, made[1].closed)
	_, err = list.open("two.log", open)
	require.ErrorIs(t, err, refuse)

	// Closed by a reload while it is opened anew: nothing stays open.
	why = nil
	require.NoError(t, first.Close())
	require.Equal(t, 1, made[1].closed)
	require.NoError(t, list.reopen(), "it is not in the list any more")
	require.Len(t, made, 2)
	require.NoError(t, first.(*reopenedFile).reopen())
	require.Equal(t, 1, made[2].closed)
}
