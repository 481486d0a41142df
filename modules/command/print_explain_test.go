package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/routing"
)

// TestWriteExplanation: an explanation in words says what a table does not show of how it came.
func TestWriteExplanation(t *testing.T) {
	t.Parallel()
	text := func(v admin.Explanation) string {
		var b strings.Builder
		writeExplanation(&b, &v)
		return b.String()
	}
	two := routing.Explanation{Candidates: []routing.Explained{{Route: "deep"}, {Route: "small"}}}
	require.Contains(t, text(admin.Explanation{Explanation: two}), "Nothing was predicted of it")
	two.Kinds = map[string]float64{"code": 1}
	require.NotContains(t, text(admin.Explanation{Explanation: two}), "Nothing was predicted of it")

	then := func(choice string, other bool) string {
		request := &admin.Decided{ID: "req_1", Choice: choice, OtherFile: other}
		return text(admin.Explanation{Explanation: two, Request: request})
	}
	require.Contains(t, then("small", false), "small was planned first then: what follows is by what has been learned")
	require.NotContains(t, then("deep", false), "planned first")
	require.Contains(t, then("small", true), "Another configuration served then, and small was planned first")

	refused := text(admin.Explanation{Explanation: routing.Explanation{Refusal: "nothing fits"}})
	require.Contains(t, refused, "No route can take it: nothing fits.")
	require.NotContains(t, refused, "cost counts", "nothing was weighed")
	require.NotContains(t, refused, "Nothing was predicted")
}
