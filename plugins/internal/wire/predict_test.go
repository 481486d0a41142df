package wire_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/internal/wire"
	"github.com/fareway/fareway/plugins/llm"
)

// What a provider predicts is one prediction for each request, of one quality for each route, or of nothing.
func TestPredictions(t *testing.T) {
	t.Parallel()
	two := llm.PredictRequest{Texts: []llm.ScreenText{{Role: "user", Text: "Hi"}}, InputTokens: 3, Tools: true,
		Routes: []llm.PredictRoute{{Name: "a", Model: "m", Quality: 0.5}, {Name: "b"}}}
	requests := []llm.PredictRequest{two, {Texts: []llm.ScreenText{}}}
	require.Equal(t, []llm.PredictRequest{two, {Texts: []llm.ScreenText{}}},
		wire.PredictRequestsFromProto(wire.PredictRequestsToProto(requests)))
	bad := two
	bad.Texts, bad.Routes = []llm.ScreenText{{Text: "\xff"}}, []llm.PredictRoute{{Model: "\xff"}}
	sent := wire.PredictRequestsFromProto(wire.PredictRequestsToProto([]llm.PredictRequest{bad}))[0]
	require.Equal(t, "\uFFFD", sent.Texts[0].Text)
	require.Equal(t, "\uFFFD", sent.Routes[0].Model)

	for _, good := range [][]llm.Prediction{{{0, 1}, nil}, {{llm.Unknown, 0.5}, {}}, {nil, nil}} {
		require.NoError(t, wire.CheckPredictions(requests, good))
		answer := wire.PredictionsToProto(requests, good, nil)
		require.Nil(t, answer.GetFailure())
		for i, p := range wire.PredictionsFromProto(answer) {
			require.Equal(t, append(llm.Prediction{}, good[i]...), append(llm.Prediction{}, p...))
		}
	}
	for name, wrong := range map[string][]llm.Prediction{"too few": {nil}, "too many": {nil, nil, nil}, "none": nil,
		"a route too few": {{0.5}, nil}, "a route too many": {{0.5, 0.5, 0.5}, nil}, "of no route": {nil, {0.5}},
		"above": {{0.5, 1.01}, nil}, "below": {{0.5, -0.01}, nil}, "no number": {{math.NaN(), 0.5}, nil},
		"far below": {{-2, 0.5}, nil}} {
		require.Error(t, wire.CheckPredictions(requests, wrong), name)
		require.NotNil(t, wire.PredictionsToProto(requests, wrong, nil).GetFailure(), name)
	}
	answer := wire.PredictionsToProto(requests, []llm.Prediction{nil, nil}, errors.New("away"))
	require.NotNil(t, answer.GetFailure())
	require.Empty(t, answer.GetPredictions())
}
