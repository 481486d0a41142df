package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// knownModel is a trained model that knows models, and how good they were.
type knownModel map[string]float64

func (m knownModel) Knows(model string) bool { _, ok := m[model]; return ok }

func (m knownModel) Models() (names []string) {
	for name := range m {
		names = append(names, name)
	}
	return names
}

func (m knownModel) Figures(model string) (float64, map[string]float64, bool) {
	q, ok := m[model]
	return q, map[string]float64{KindTools: q / 2}, ok
}

// readKnown takes lines of a model and its quality for a model file.
func readKnown(content []byte) (Model, error) {
	m := make(knownModel)
	for line := range strings.Lines(string(content)) {
		var name string
		var quality float64
		if _, err := fmt.Sscan(line, &name, &quality); err != nil {
			return nil, errors.New("the model file is not usable: train it again (it is cut off)")
		}
		m[name] = quality
	}
	return m, nil
}

// loadModel loads a configuration beside a model file; content nil for none.
func loadModel(t *testing.T, text string, content *string) (path string, cfg *Config, diags *Diagnostics) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "gateway.hcl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	if content != nil {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "routes.model"), []byte(*content), 0o600))
	}
	cfg, diags = Load(t.Context(), path, Options{Schema: testSchema, Model: readKnown})
	return path, cfg, diags
}

const useModel = "predictor {\n  model = \"routes.model\"\n}\n"

// TestPredictorLoads: the file is read beside the one that names it, watched with it, and its content is a part of
// the configuration.
func TestPredictorLoads(t *testing.T) {
	t.Parallel()
	path, cfg, diags := loadModel(t, useModel+withQuality(`"mine-2"`, `quality = "auto"`), new("mine-2 0.6\nother 0.5\n"))
	require.Empty(t, diags.All())
	file := filepath.Join(filepath.Dir(path), "routes.model")
	require.Equal(t, file, cfg.Predictor.File)
	require.Len(t, cfg.Predictor.Fingerprint(), FingerprintDigits)
	require.NotNil(t, cfg.Predictor.Model)
	require.Contains(t, cfg.String(), cfg.Predictor.Fingerprint())
	r := cfg.Routes[0]
	require.InDelta(t, 0.6, r.Quality, 0, "what was recorded of one's own counts, not the table")
	require.InDelta(t, 0.3, r.QualityFor(KindTools), 0)

	named := Named(path, nil)
	require.Len(t, named, 2)
	require.Equal(t, cfg.Files, named, "what is watched is what was loaded")
	require.Nil(t, named[1].Text, "and is not kept for a rollback")
	require.Equal(t, cfg.Hash, Digest(path))
	require.NoError(t, os.WriteFile(file, []byte("mine-2 0.75\n"), 0o600))
	require.NotEqual(t, cfg.Hash, Digest(path), "another content is another configuration")
	require.NoError(t, os.Remove(file))
	require.NotEqual(t, cfg.Hash, Digest(path))
}

// TestPredictorIsTheBuiltInOne without a block, and with one whose file nobody reads.
func TestPredictorIsTheBuiltInOne(t *testing.T) {
	t.Parallel()
	cfg, diags := loadText(t, minimal)
	require.NoError(t, diags.Err())
	require.Equal(t, Predictor{}, cfg.Predictor)
	require.Empty(t, cfg.Predictor.Fingerprint())
}

// TestModelsThatCannotBeUsed: each is said where it stands, and what to do.
func TestModelsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	auto := withQuality(`"mine-2"`, `quality = "auto"`)
	weight := withQuality(`"mine-2"`, "quality {\n default = 0.5\n weight = 40\n}")
	for name, tc := range map[string]struct {
		text    string
		content *string
		line    int
		says    []string
	}{
		"missing": {useModel + minimal, nil, 2, []string{"There is no such file on this machine", "route train",
			"leave the block out"}},
		"cut short": {useModel + minimal, new("mine-2"), 2, []string{`"routes.model" is no model that can be used`,
			"train it again (it is cut off)."}},
		"of other routes, with auto": {useModel + auto, new("a 0.1\nb 0.2\nc 0.3\nd 0.4\ne 0.5\nf 0.6\n"), 2,
			[]string{"the model file of the predictor was not trained on it", "The model knows none of these routes"}},
		"of other routes, with weight": {useModel + weight, new("a 0.1\nb 0.2\nc 0.3\nd 0.4\ne 0.5\nf 0.6\n"), 2,
			[]string{"The model knows none of these routes", "answers of a, b, c, d, e and 1 more"}},
		"a folder":         {strings.Replace(useModel, "routes.model", ".", 1) + minimal, nil, 2, []string{"It is a folder"}},
		"from environment": {"predictor {\n  model = env(\"PATH\")\n}\n" + minimal, nil, 2, []string{"written out"}},
		"unprintable":      {"predictor {\n  model = \"a\\u200b\"\n}\n" + minimal, nil, 2, []string{"Rename the file"}},
		"nothing":          {"predictor {\n}\n" + minimal, nil, 1, []string{"model"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, cfg, diags := loadModel(t, tc.text, tc.content)
			require.Nil(t, cfg)
			found := diags.All()
			require.LessOrEqual(t, len(found), 2, "%v", diags)
			require.Equal(t, tc.line, found[0].Line, "%v", diags)
			for _, want := range tc.says {
				all, err := json.Marshal(diags)
				require.NoError(t, err)
				require.Contains(t, strings.ReplaceAll(string(all), `\"`, `"`), want)
			}
		})
	}
	t.Run("unreadable and too large", func(t *testing.T) {
		t.Parallel()
		path, cfg, diags := loadModel(t, useModel+minimal, new(""))
		require.NoError(t, diags.Err())
		require.NotNil(t, cfg)
		file := filepath.Join(filepath.Dir(path), "routes.model")
		require.NoError(t, os.Truncate(file, maxModel+1))
		_, diags = Load(t.Context(), path, Options{Schema: testSchema, Model: readKnown})
		require.ErrorContains(t, diags.Err(), "larger than 32 MiB")
	})
}

// TestQualitiesOfTwoMeasures: the table's figures and those of one's own recordings do not compare.
func TestQualitiesOfTwoMeasures(t *testing.T) {
	t.Parallel()
	text := withQuality(`"mine-2"`, `quality = "auto"`)
	_, second, _ := strings.Cut(withQuality(`"gpt-4o-mini"`, `quality = "auto"`), "}\n")
	text += strings.Replace(second, "small", "other", 1)
	_, cfg, diags := loadModel(t, useModel+text, new("mine-2 0.6\n"))
	require.NotNil(t, cfg, "%v", diags)
	require.True(t, slices.ContainsFunc(diags.All(), func(d Diagnostic) bool {
		return d.Summary == "Qualities of two measures" && d.Severity == SeverityWarning && d.Line == 23
	}), "%v", diags)
}
