//go:build !race

package conform_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/internal/conform"
)

// TestFitsAsItIs: what fits is not touched, and costs no memory. Not parallel: allocations are counted for the whole
// process. Not with the race detector: under it a sync.Pool drops what it is given now and then.
func TestFitsAsItIs(t *testing.T) { //nolint:paralleltest // as said
	req := ordinary()
	refused := slices.DeleteFunc(
		all(),
		func(n string) bool { return n == "call_ids_unlike_9" || n == "user_after_result" },
	)
	fit, names := conformed(t, req, refused...)
	require.Same(t, req, fit)
	require.Nil(t, names)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _, _ = conform.Request(req, refused) }))
}
