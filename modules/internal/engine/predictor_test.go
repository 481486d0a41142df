package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// modelFile is a model that can be used, trained at a time.
func modelFile(t *testing.T, trained int64) string {
	t.Helper()
	m := *predict.Default()
	m.Trained = trained
	file, err := m.Encode()
	require.NoError(t, err)
	return string(file)
}

// TestModelIsTakenUp: a gateway that runs takes up another content of its model file as it is saved, and keeps what
// it has where that cannot be used.
func TestModelIsTakenUp(t *testing.T) {
	t.Parallel()
	w := watch(t, liveHCL("1"))
	about := func() routing.About { return routing.ModelOf(w.Current().Config) }
	require.Empty(t, about().File)
	file := filepath.Join(w.dir, "routes.model")
	with := liveHCL("1", "predictor {\n  model = \"routes.model\"\n}")

	w.save(with)
	w.second()
	require.Contains(t, w.FailedLoad().Problem, "There is no such file on this machine")
	require.Empty(t, about().File, "what served goes on")

	w.write(file, modelFile(t, 1_780_000_000))
	w.second()
	require.Nil(t, w.FailedLoad())
	require.Equal(t, file, about().File)
	require.EqualValues(t, 1_780_000_000, about().Trained.Unix())
	first := about().SHA256

	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	w.write(file, string(whole[:len(whole)/2]))
	w.second()
	require.Contains(t, w.FailedLoad().Text(), "it was cut short")
	require.Contains(t, w.FailedLoad().Text(), `model = "routes.model"`, "it says where")
	require.Equal(t, first, about().SHA256)
	require.True(t, about().Trained != nil)

	w.write(file, modelFile(t, 1_790_000_000))
	w.second()
	require.Nil(t, w.FailedLoad())
	require.EqualValues(t, 1_790_000_000, about().Trained.Unix())
	require.NotEqual(t, first, about().SHA256)

	changes, err := w.Plan(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, changes.Changes)
	w.write(file, modelFile(t, 1_795_000_000))
	changes, err = w.Plan(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, changes.Changes, 1)
	require.Equal(t, "predictor", changes.Changes[0].Type)
	require.Equal(t, "sha256", changes.Changes[0].Fields[0].Name)
}

// TestGenerationPredictsByItsModel: what routes requests is the configuration's model.
func TestGenerationPredictsByItsModel(t *testing.T) {
	t.Parallel()
	w := watch(t, liveHCL("1"))
	require.Same(t, routing.DefaultPredictor(), w.Current().Predictor())
	w.write(filepath.Join(w.dir, "routes.model"), modelFile(t, 1_780_000_000))
	w.save(liveHCL("1", "predictor {\n  model = \"routes.model\"\n}"))
	w.second()
	require.Same(t, routing.PredictorOf(w.Current().Config), w.Current().Predictor())
	require.NotSame(t, routing.DefaultPredictor(), w.Current().Predictor())
}
