package measure

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQuantile: between two values it is as far as the share says.
func TestQuantile(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]float64{0: 0, 0.25: 5, 0.5: 10, 0.75: 25, 1: 40} {
		require.InDelta(t, want, quantile([]float64{0, 10, 40}, share), 1e-9, share)
		require.InDelta(t, 7, quantile([]float64{7}, share), 1e-9)
	}
}

// TestDrawings: each drawing says and shows what it did when somebody last looked at it. Whoever changes one looks at
// it, and notes the sum that the test prints.
func TestDrawings(t *testing.T) {
	t.Parallel()
	curve := Curve{
		Models: []string{"small", "large"}, Singles: []Point{{0.001, 0.5}, {0.02, 0.8}},
		Mix: []Point{{0.001, 0.5}, {0.02, 0.8}}, Router: []Point{{0.001, 0.55}, {0.01, 0.8}},
		Oracle:      []Point{{0.001, 0.7}, {0.005, 0.9}},
		Calibration: []Bin{{0.1, 0.2, 9}, {0.5, 0.4, 9}, {0.9, 0.95, 9}},
		Tasks:       []Task{{"code", 30, 0.1}, {"math", 25, -0.05}},
	}
	shares, free, many := curve, curve, curve
	shares.Shares = true
	free.Singles = []Point{{0, 0.5}, {0.02, 0.8}}
	for i := range 25 {
		many.Tasks = append(many.Tasks, Task{fmt.Sprint("task ", i), 20, 0.01 * float64(i)})
	}
	drawings := map[string]func(*Result) []byte{
		"curve": (*Result).CurveSVG, "calibration": (*Result).CalibrationSVG, "tasks": (*Result).TasksSVG}
	said := regexp.MustCompile(`>([^<>\n]+)</text>`)
	for _, tt := range []struct {
		drawing string
		curve   Curve
		sum     uint32
		says    string
	}{
		{"curve", curve, 0x1069b479, "US dollars for 1,000 prompts"},
		{"curve", free, 0xbef108fc, "US dollars for 1,000 prompts"},
		{"curve", shares, 0xcf404a0e, "percent of prompts sent to the stronger model"},
		{"curve", Curve{}, 0x609ad8d7, "set: nobody knows what its answers cost"},
		{"calibration", curve, 0x2776a4f6, "predicted score"},
		{"tasks", curve, 0x6aa6a56b, "over the best random mix"}, {"tasks", many, 0x3a42699f, "task 17 (20)"},
		{"tasks", Curve{}, 0x15ba6f7c, "set: area by task: none has 20 prompts and costs"},
	} {
		svg := drawings[tt.drawing](&Result{Dataset: "set", Curve: tt.curve})
		var texts []string
		for _, m := range said.FindAllSubmatch(svg, -1) {
			texts = append(texts, string(m[1]))
		}
		require.Contains(t, texts, tt.says)
		require.NotContains(t, texts, "task 18 (20)", "twenty at most")
		sum := fnv.New32a()
		_, _ = sum.Write(svg)
		require.Equal(t, tt.sum, sum.Sum32(), "%s: %#x", tt.says, sum.Sum32())
	}
}
