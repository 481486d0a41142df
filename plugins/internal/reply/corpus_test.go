package reply_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// refusal is a line of the corpus: what a service really sent, and where that is written down.
type refusal struct {
	Service string
	Status  int
	Kind    llm.ErrorKind
	Body    string
	Source  string
}

func corpus(t testing.TB) (all []refusal) {
	t.Helper()
	raw, err := os.ReadFile("testdata/refusals.jsonl")
	require.NoError(t, err)
	for line := range bytes.Lines(raw) {
		var r refusal
		require.NoError(t, json.Unmarshal(line, &r))
		require.NotEmpty(t, r.Source)
		all = append(all, r)
	}
	return all
}

func TestCorpusOfRefusals(t *testing.T) {
	t.Parallel()
	counts := map[llm.ErrorKind]int{}
	for i, r := range corpus(t) {
		counts[r.Kind]++
		t.Run(fmt.Sprintf("GAP-126 line %d %s", i+1, r.Service), func(t *testing.T) {
			t.Parallel()
			e := reply.Refusal(r.Status, "", []byte(r.Body))
			require.Equal(t, r.Kind, e.Kind, "%d %s", r.Status, r.Body)
		})
	}
	for _, kind := range []llm.ErrorKind{llm.ErrPolicy, llm.ErrContext, llm.ErrAllowance, llm.ErrCredentials, llm.ErrQuota,
		llm.ErrCapacity, llm.ErrUnfit, llm.ErrRejected, llm.ErrUpstream} {
		require.GreaterOrEqual(t, counts[kind], 10, kind)
	}
}
