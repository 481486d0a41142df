package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func TestAttemptID(t *testing.T) {
	t.Parallel()
	require.Equal(t, "req_1.2", ledger.AttemptID("req_1", 2))
	rapid.Check(t, func(t *rapid.T) {
		request := rapid.StringN(1, 20, -1).Draw(t, "request")
		seq := rapid.Int64Range(1, 1<<62).Draw(t, "seq")
		gotRequest, gotSeq, ok := ledger.ParseAttemptID(ledger.AttemptID(request, seq))
		require.True(t, ok)
		require.Equal(t, request, gotRequest)
		require.Equal(t, seq, gotSeq)
	})
	for _, wrong := range []string{
		"", ".", "req", "req.", ".1", "req.0", "req.-1", "req.+1", "req.01", "req.1 ", "req. 1", "req.1.", "req.a",
		"req.9223372036854775808", "req.0x1",
	} {
		_, _, ok := ledger.ParseAttemptID(wrong)
		require.False(t, ok, "%q", wrong)
	}
}
