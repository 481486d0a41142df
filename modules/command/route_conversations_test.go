package command

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

// TestCommandEvalConversations is issue 13: what affinity saves, for each profile and kind of conversation.
func TestCommandEvalConversations(t *testing.T) {
	t.Parallel()
	views := runJSON[[]conversationsView](t, "route", "eval", "--conversations")
	require.Len(t, views, 3*4)
	require.Equal(t, config.ProfileBudget, views[0].Profile)
	out, err := run(t, "route", "eval", "--conversations")
	require.NoError(t, err)
	require.Regexp(t, `balanced +agent loops without tools +\d+ +[0-9.,]+ +0\.\d+ +\d+ +[0-9.,]+ +0\.\d+ +\d+ +`+
		`-?[0-9.]+% +\w+ `, out)
	for _, args := range [][]string{{"--conversations", "--folds", "3"}, {"--hcl", "x.hcl", "--data", "x"}, {},
		{"--conversations", "--hcl", "none.hcl"}} {
		_, err := run(t, append([]string{"route", "eval"}, args...)...)
		require.Error(t, err, args)
	}
}
