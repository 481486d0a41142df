package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVerifyClean(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	kept := s.everything()
	r, err := s.store.Verify(t.Context(), kept...)
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	t.Logf("%+v", r)
	path := filepath.Join(t.TempDir(), "p.db")
	prefill(t, path, 100, 2000)
	b, err := OpenBooks(t.Context(), path)
	require.NoError(t, err)
	r, err = b.Verify(t.Context())
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	require.NoError(t, b.Close())
}
