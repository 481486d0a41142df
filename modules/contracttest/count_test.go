package contracttest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/verify/wire"
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

	t.Run("CNT-01 CNT-02 CNT-03 CNT-04 SSE-02 the estimate of a whole body", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		var counts []string
		for _, path := range append(countPaths, countPaths[0]+"?beta=true") {
			a := c.Post(path, whole, "Anthropic-Version", "2023-06-01")
			require.Equal(t, 200, a.StatusCode, "body: %s", a.Raw)
			require.Equal(t, "application/json", a.Header.Get("Content-Type"))
			require.Regexp(t, `^\{"input_tokens":[1-9][0-9]*\}$`, string(a.Raw))
			counts = append(counts, string(a.Raw))
		}
		require.Equal(t, counts[0], counts[1])
		require.Equal(t, counts[0], counts[2])
		c.RequireUntouched(t)
	})
	t.Run("CNT-02 everything that is read counts", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		count := func(members ...string) int64 {
			return c.Count(t, `{"model":"auto",`+strings.Join(members, ",")+`}`)
		}
		const hi = `"messages":[{"role":"user","content":"hi"}]`
		least := count(hi)
		require.Equal(t, least, count(hi), "equal bodies, equal counts")
		require.Equal(t, least, count(hi, `"max_tokens":1,"temperature":0.5,"foo":"bar bar bar bar"`))
		require.Greater(t, count(`"messages":[{"role":"user","content":"hi there, how are you today?"}]`), least+5)
		require.Greater(t, count(hi, `"system":"Answer in one short sentence."`), least+5)
		require.Greater(t,
			count(hi, `"tools":[{"name":"look","description":"looks things up","input_schema":{"type":"object"}}]`), least+5)
		call := `{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"look","input":{"q":"things of all ` +
			`kinds"}}]}`
		called := count(`"messages":[{"role":"user","content":"hi"},` + call + `]`)
		require.Greater(t, called, least+5)
		answered := count(`"messages":[{"role":"user","content":"hi"},` + call +
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"nothing was found there"}]}]`)
		require.Greater(t, answered, called+5)
		c.RequireUntouched(t)
	})
	t.Run("CNT-03 GAP-11 the rules are those of messages", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		for _, body := range []string{
			`{"model":"auto"}`, `{"model":"auto","messages":[]}`, `{"model":"auto","messages":"PROMPT"}`,
			`{"model":"auto","input":"PROMPT"}`,
			`{"model":"auto","messages":[{"role":"user","content":"PROMPT"}],"max_tokens":0}`,
			`{"model":"auto","messages":[{"role":"user","content":"PROMPT"}],"stop_sequences":"x"}`,
			`{"model":"auto","messages":[{"role":"user","content":"PROMPT"}],"stream":1}`,
			`{"model":"auto","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"y"}]}]}`,
		} {
			for _, path := range countPaths {
				requireError(t, wire.Count, c.Post(path, body), 400, "invalid_request_error")
			}
		}
		c.RequireUntouched(t)
	})
	t.Run("CNT-05 BILL-35 never charged", func(t *testing.T) {
		t.Parallel()
		c := g.caller(t, 3)
		for range 20 {
			require.Positive(t, c.Count(t, whole))
		}
		requireCredits(t, c.service, 3, 0, 0, 3)
		c.RequireUntouched(t)
	})
	t.Run("CNT-06 EP-15 BILL-35 at no balance and below", func(t *testing.T) {
		t.Parallel()
		zero, owing := g.caller(t, 0), g.caller(t, 1)
		owing.Owe(owing.Account, 3_450_000)
		require.Equal(t, ledger.Balance{Credits: -2, Accrued: 450_000}, owing.Balance())
		for _, c := range []*caller{zero, owing} {
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
	t.Run("CNT-07 MEDIA-07 MEDIA-08 MEDIA-13 media", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		const image = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`
		const audio = `{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`
		for _, part := range []string{image, audio} {
			for _, body := range []string{
				`"messages":[{"role":"user","content":[{"type":"text","text":"PROMPT"},` + part + `]}]`,
				`"messages":[{"role":"user","content":"PROMPT"}],"system":[` + part + `]`,
				`"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[` + part + `]}]}]`,
			} {
				for _, path := range countPaths {
					a := c.Post(path, `{"model":"auto",`+body+`}`)
					requireError(t, wire.Count, a, 400, "unsupported_content")
					require.Equal(t, "Image and audio input are not supported yet. Send text only.", a.At(t, "error", "message"))
				}
			}
		}
		c.RequireUntouched(t)
	})
}
