package routing_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// TestReadPredictor: what was trained can be loaded, is told apart from what is built in, and what cannot be used
// says why.
func TestReadPredictor(t *testing.T) {
	t.Parallel()
	m := *predict.Default()
	m.Trained = 1_780_000_000
	file, err := m.Encode()
	require.NoError(t, err)
	model, err := routing.ReadModel(file)
	require.NoError(t, err)
	require.True(t, model.Knows("claude-v2"))
	cfg := &config.Config{Predictor: config.Predictor{File: "/etc/fareway/routes.model", Model: model}}
	about := routing.ModelOf(cfg)
	require.Regexp(t, `^/etc/fareway/routes.model \([0-9a-f]{12}, trained 2026-05-28 20:26 UTC\)$`, about.String())
	require.Positive(t, about.Prompts)
	builtIn := routing.ModelOf(&config.Config{})
	require.Regexp(t, `^the model that is built in \([0-9a-f]{12}`, builtIn.String())
	require.Equal(t, builtIn.Signals, about.Signals, "they make the same of requests")
	require.Same(t, routing.DefaultPredictor(), routing.PredictorOf(&config.Config{}))
	require.NotSame(t, routing.DefaultPredictor(), routing.PredictorOf(cfg))
	again, err := routing.ReadModel(bytes.Clone(file))
	require.NoError(t, err)
	require.NotNil(t, again)

	for says, content := range map[string][]byte{
		"it is empty":                   {},
		"it does not begin with":        []byte("{\"models\": []}\n"),
		"it is cut off":                 file[:40],
		"it was cut short, or changed":  file[:len(file)/2],
		"it is of version 3, and this":  []byte("fareway route model 3\nxxx"),
		"it is larger than":             make([]byte, predict.MaxFile+1),
		"it does not begin with \"fare": []byte("fareway route model x\n"),
	} {
		model, err := routing.ReadModel(content)
		require.ErrorIs(t, err, predict.ErrModel, says)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "route train", says)
		require.Nil(t, model, says)
	}
}
