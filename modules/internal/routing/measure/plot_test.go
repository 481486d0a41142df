package measure

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDecades: 1, 2 and 5 of each power of ten are marked, the ends with them.
func TestDecades(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		low, high float64
		want      []string
	}{
		{1, 10, []string{"1", "2", "5", "10"}}, {0.2, 3, []string{"0.2", "0.5", "1", "2"}},
		{1, 1, []string{"1"}}, {2.5, 4, nil}, {5, 200, []string{"5", "10", "20", "50", "100", "200"}},
	} {
		var labels []string
		for _, tick := range (decades{}).Ticks(tt.low, tt.high) {
			labels = append(labels, tick.Label)
		}
		require.Equal(t, tt.want, labels)
	}
}

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
	drawings := map[string]func(*Result) ([]byte, error){
		"curve": (*Result).CurveSVG, "calibration": (*Result).CalibrationSVG, "tasks": (*Result).TasksSVG}
	said, number := regexp.MustCompile(`>([^<>\n]+)</text>`), regexp.MustCompile(`(\.\d)\d+`)
	for _, tt := range []struct {
		drawing string
		curve   Curve
		sum     uint32
		says    string
	}{
		{"curve", curve, 0x9451f4a1, "US dollars for 1,000 prompts"},
		{"curve", free, 0x48881805, "US dollars for 1,000 prompts"},
		{"curve", shares, 0xfd5c6f16, "percent of prompts sent to the stronger model"},
		{"curve", Curve{}, 0xab81b9b7, "set: nobody knows what its answers cost"},
		{"calibration", curve, 0x8bc7fd6d, "predicted score"},
		{"tasks", curve, 0x97ab60a7, "over the best random mix"}, {"tasks", many, 0xe88a49fe, "task 17 (20)"},
		{"tasks", Curve{}, 0x43697dc0, "set: area by task: none has 20 prompts and costs"},
	} {
		svg, err := drawings[tt.drawing](&Result{Dataset: "set", Curve: tt.curve})
		require.NoError(t, err)
		var texts []string
		for _, m := range said.FindAllSubmatch(svg, -1) {
			texts = append(texts, string(m[1]))
		}
		require.Contains(t, texts, tt.says)
		require.NotContains(t, texts, "task 18 (20)", "twenty at most")
		sum := fnv.New32a()
		_, _ = sum.Write(number.ReplaceAll(svg, []byte("$1"))) // what processors differ in is further behind
		require.Equal(t, tt.sum, sum.Sum32(), "%s: %#x", tt.says, sum.Sum32())
	}
}
