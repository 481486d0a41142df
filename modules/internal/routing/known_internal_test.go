package routing

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// poolsOf is a model with pools of a route each, with these mean scores.
func poolsOf(pools ...predict.Pool) *known {
	return knownIn(&predict.Model{Pools: pools})
}

func poolOf(dataset string, calls bool, models map[string]float32) predict.Pool {
	p := predict.Pool{Datasets: []string{dataset}, Rows: 100, Calls: calls}
	for name, mean := range models {
		p.Models = append(p.Models, name)
		p.Routes = append(p.Routes, predict.Route{Mean: mean, Expected: mean})
	}
	return p
}

// TestKnownNames: a model is found by a service's name for it, in all pools that have it.
func TestKnownNames(t *testing.T) {
	t.Parallel()
	k := DefaultPredictor().known
	pools := func(model string) (names []string) {
		for _, one := range k.of(model) {
			names = append(names, one.pool.Datasets...)
		}
		return names
	}
	both := []string{"bfcl_tools", "zeroeval_crux", "zeroeval_math-l5"}
	for model, want := range map[string][]string{
		"gpt-4o-mini-2024-07-18": both, "gpt-4o-mini": nil, "openai/gpt-4o-mini-2024-07-18": both,
		"us.anthropic.claude-3-5-haiku-20241022-v1:0": {"zeroeval_crux", "zeroeval_math-l5"},
		"meta-llama/Llama-3.1-8B-Instruct":            {"mmlupro_train", "zeroeval_crux", "zeroeval_math-l5"},
		"llama3.1:8b":                                 {"mmlupro_train", "zeroeval_crux", "zeroeval_math-l5"},
		"mixtral:8x7b":                                {"routerbench3_train"},
		"mistralai/mixtral-8x7b-instruct-v0.1:free":   {"mmlupro_train", "routellm_mmlu_gold1500", "zeroeval_crux"},
		"yi:6b":                             {"mmlupro_train"},
		"nobody/knows-this":                 nil,
		"":                                  nil,
		"ft:gpt-4o-mini-2024-07-18:acme::x": nil,
	} {
		require.Subset(t, pools(model), want, model)
		if want == nil {
			require.Empty(t, pools(model), model)
		}
	}
	require.Contains(t, k.of("yi:6b")[0].pool.Models[k.of("yi:6b")[0].k], "Chat", "no service serves the base model")
	for _, one := range k.of("gpt-4o-mini-2024-07-18") {
		require.Equal(t, one.pool.Datasets[0] == "bfcl_tools", one.calls)
	}
}

// TestFigures: all pools that have a model, without outliers; calls of tools never stand for conversation.
func TestFigures(t *testing.T) {
	t.Parallel()
	p := &Predictor{known: poolsOf(
		poolOf("a", false, map[string]float32{"m-1": 0.6, "only": 0.3}),
		poolOf("b", false, map[string]float32{"vendor/m-1": 0.7}),
		poolOf("c", false, map[string]float32{"m-1-instruct": 0.1}),
		poolOf("d", true, map[string]float32{"m-1": 0.4, "m-1-FC": 0.5, "caller": 0.9}))}
	quality, by, ok := p.Figures("openai/m-1:free")
	require.True(t, ok)
	require.InDelta(t, 0.65, quality, 1e-6, "0.1 is far from the middle")
	require.Equal(t, []string{config.KindTools}, keysOf(by))
	require.InDelta(t, 0.5, by[config.KindTools], 1e-6, "of two ways to call the better one")
	quality, by, ok = p.Figures("only")
	require.True(t, ok)
	require.InDelta(t, 0.3, quality, 1e-6)
	require.Empty(t, by)
	_, _, ok = p.Figures("caller")
	require.False(t, ok, "of calls alone nothing is known of conversation")
	require.True(t, p.Knows("caller"))
	require.False(t, p.Knows("other"))
}

func keysOf(m map[string]float64) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// TestCallsDoNotStandForTalk: what was recorded of calls counts as far as a request is for calls.
func TestCallsDoNotStandForTalk(t *testing.T) {
	t.Parallel()
	talk, calls := poolOf("a", false, map[string]float32{"m": 0.8}), poolOf("d", true, map[string]float32{"m": 0.2})
	for _, p := range []*predict.Pool{&talk, &calls} {
		for k := range p.Routes {
			p.Routes[k].Quality.Bias = 9 // all right
		}
	}
	calls.Routes[0].Quality.Bias = -9
	prior := predict.Flat(0.5)
	prior.Weight = 100
	s := &sight{}
	s.signal.Trust = 1
	for share, want := range map[float32]float64{0: 0.75, 1: 0.25, 0.5: 0.5} {
		s.signal.Kinds = [predict.NumKinds]float32{predict.Knowledge: 1 - share, predict.Tools: share}
		quality, output := s.blend([]recorded{{&talk, 0, false}, {&calls, 0, true}}, &prior, 0.5, 77)
		require.InDelta(t, want, quality, 0.01, "%v", share)
		require.InDelta(t, 77, output, 0, "nobody has counted it")
	}
	quality, _ := s.blend(nil, &prior, 0.5, 77)
	require.InDelta(t, 0.5, quality, 0)
}
