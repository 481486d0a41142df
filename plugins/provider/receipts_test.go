package provider

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/llm"
)

// archive is a provider with receipts for what has a reference.
type archive struct{ generator }

func (archive) Receipts(_ context.Context, attempts []Attempt) (all []Receipt, err error) {
	for _, a := range attempts {
		if a.Reference != "" {
			all = append(all, Receipt{Attempt: a.ID, Usage: llm.Usage{Output: llm.Count(int64(len(a.Reference)))}})
		}
	}
	return all, nil
}

// Receipts survive: what a gateway keeps of an attempt comes with the question; one of before December 2026 keeps
// nothing.
func TestReceiptsAreAskedForByReferences(t *testing.T) {
	t.Parallel()
	client := serve(t, archive{})
	for name, c := range map[string]struct {
		references map[string]string
		want       []int64
	}{
		"of today":  {map[string]string{"a": "gen-1", "c": "generation-3", "x": "of another"}, []int64{5, 12}},
		"of before": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := client.Receipts(t.Context(), &proto.ReceiptsRequest{Attempts: []string{"a", "b", "c"},
				References: c.references})
			require.NoError(t, err)
			require.Nil(t, answer.GetFailure())
			var got []int64
			for _, r := range answer.GetReceipts() {
				got = append(got, r.GetUsage().GetOutput())
			}
			require.Equal(t, c.want, got)
		})
	}
	about, err := client.Describe(t.Context(), &proto.DescribeRequest{})
	require.NoError(t, err)
	require.True(t, about.GetCapabilities().GetReceipts())
	require.False(t, about.GetCapabilities().GetAttempted(), "it is of before")
}
