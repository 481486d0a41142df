package contracttest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// countPaths are the two paths of the token count.
var countPaths = []string{"/v1/messages/count_tokens", "/messages/count_tokens"}

// Count is the service's estimate of a messages request.
func (c *caller) Count(t testing.TB, body string) int64 {
	t.Helper()
	a := c.Post(countPaths[0], body)
	require.Equal(t, 200, a.StatusCode, "body: %s", a.Raw)
	n, err := a.At(t, "input_tokens").(json.Number).Int64()
	require.NoError(t, err)
	return n
}

func TestTokenCount(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	const whole = `{"model":"claude-opus-5-5","max_tokens":1024,"stream":true,"temperature":1,
		"system":[{"type":"text","text":"You answer PROMPT."}],
		"tools":[{"name":"look","description":"looks","input_schema":{"type":"object","properties":{"q":{"type":"string"}}}}],
		"messages":[{"role":"user","content":"hi"},
			{"role":"assistant","content":[{"type":"text","text":"looking"},{"type":"tool_use","id":"t1","name":"look",` +
		`"input":{"q":1}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"found it"}]}]}`

	t.Run("CNT-06 EP-15 BILL-35 below no balance", func(t *testing.T) {
		t.Parallel()
		owing := g.caller(t, 1)
		owing.Owe(owing.Account, 3_450_000)
		require.Equal(t, ledger.Balance{Credits: -2, Accrued: 450_000}, owing.Balance())
		for _, c := range []*caller{owing} {
			before := c.Net()
			require.Positive(t, c.Count(t, whole))
			for _, p := range places {
				a := p.Send(c)
				if p.Method == "POST" && !strings.HasSuffix(p.Path, "count_tokens") {
					requireError(t, p.Shape, a, 402, "budget_exceeded")
				} else {
					require.Equal(t, 200, a.StatusCode, p.Path)
				}
			}
			require.Equal(t, before, c.Net())
		}
	})
}
