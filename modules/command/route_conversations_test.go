package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

// TestCommandEvalConversations: what affinity saves, for each profile and kind of conversation.
func TestCommandEvalConversations(t *testing.T) {
	t.Parallel()
	views := runJSON[[]conversationsView](t, "route", "eval", "--conversations")
	require.Len(t, views, 4*(4+1))
	for i := 4; i < len(views); i += 5 {
		require.Equal(t, "all", views[i].Set)
		require.Equal(t, views[i-1].Profile, views[i].Profile)
		require.GreaterOrEqual(t, views[i].SavedMix, -0.01, "%s: never dearer than a mix as good", views[i].Profile)
	}
	require.Equal(t, config.ProfileBudget, views[0].Profile)
	out, err := run(t, "route", "eval", "--conversations")
	require.NoError(t, err)
	require.Regexp(t, `balanced +agent loops without tools +\d+ +[0-9.,]+ +0\.\d+ +\d+ +[0-9.,]+ +0\.\d+ +\d+ +`+
		`-?[0-9.]+% +\w+ `, out)
	for _, args := range [][]string{{"--conversations", "--folds", "3"}, {"--hcl", "x.hcl", "--data", "x"}, {},
		{"--conversations", "--hcl", "none.hcl"}, {"--captures", "testdata/captures", "--data", "x"},
		{"--conversations", "--captures", "none"}} {
		_, err := run(t, append([]string{"route", "eval"}, args...)...)
		require.Error(t, err, args)
	}
}

// TestCommandEvalCaptures: conversations are replayed that have the structure of captured ones.
func TestCommandEvalCaptures(t *testing.T) {
	t.Parallel()
	const dir = "testdata/captures"
	list, err := readCaptures(dir)
	require.NoError(t, err)
	require.Len(t, list, 7, "but for what asks for no reply, and what is refused")
	views := runJSON[[]conversationsView](t, "route", "eval", "--conversations", "--captures", dir, "--seed", "3")
	require.Len(t, views, 4*(2+1))
	require.Equal(t, "captured", views[0].Set)
	require.Equal(t, 4*4, views[0].Conversations, "four, of which each is made four times")
	require.Equal(t, 4*7, views[0].Turns)
	require.Equal(t, "captured agents, carried on", views[1].Set)
	require.Equal(t, 4*2, views[1].Conversations)
	require.Greater(t, views[1].Turns, 4*2*8)
	for _, v := range views {
		require.GreaterOrEqual(t, v.SavedAfresh, -0.01, "%s, %s", v.Profile, v.Set)
	}
	empty := t.TempDir()
	_, err = readCaptures(empty)
	require.ErrorContains(t, err, "holds no captured request")
	for name, text := range map[string]string{"a.jsonl": `{"path": 3}`, "b.jsonl.gz": "no archive"} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		_, err = readCaptures(dir)
		require.ErrorContains(t, err, name)
	}
}
