package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestTicks: marks are few, round and inside, the ends with them.
func TestTicks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		log       bool
		low, high float64
		want      string
	}{
		{true, 1, 10, "1 2 5 10"}, {true, 0.2, 3, "0.2 0.5 1 2"}, {true, 1, 1, "1"}, {true, 2.5, 4, ""},
		{true, 5, 200, "5 10 20 50 100 200"}, {true, 0.001, 100, "0.001 0.01 0.1 1 10 100"},
		{false, 0, 1, "0 0.2 0.4 0.6 0.8 1"}, {false, -0.05, 0.1, "-0.05 0 0.05 0.1"},
		{false, 3, 57, "10 20 30 40 50"}, {false, 1e9, 1.3e9, "1000000000 1050000000 1100000000 1150000000 1200000000 " +
			"1250000000 1300000000"},
	} {
		ticks := linearTicks(tt.low, tt.high, 7)
		if tt.log {
			ticks = logTicks(tt.low, tt.high)
		}
		labels := make([]string, len(ticks))
		for i, v := range ticks {
			labels[i] = label(v)
		}
		require.Equal(t, tt.want, strings.Join(labels, " "), "%v to %v", tt.low, tt.high)
	}
}

// shapes reads a drawing as XML: the places of its circles, the texts, and how many elements there are by name.
func shapes(t require.TestingT, svg []byte) (circles []Point, texts []string, count map[string]int) {
	count = map[string]int{}
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return circles, texts, count
		}
		require.NoError(t, err, string(svg))
		switch token := token.(type) {
		case xml.StartElement:
			count[token.Name.Local]++
			if token.Name.Local != "circle" {
				continue
			}
			at := map[string]float64{}
			for _, a := range token.Attr {
				at[a.Name.Local], _ = strconv.ParseFloat(a.Value, 64)
			}
			circles = append(circles, Point{at["cx"], at["cy"]})
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" {
				texts = append(texts, text)
			}
		}
	}
}

// TestPlaces: a point is where its axes say, and up is more.
func TestPlaces(t *testing.T) {
	t.Parallel()
	all := []Point{{1, 0}, {100, 10}, {10, 5}}
	c := Chart{Dots: []Dots{{Points: all, Color: Blue}}}
	circles, _, _ := shapes(t, c.SVG())
	require.Equal(t, []Point{{left, height - bottom}, {width - right, top},
		{math.Round((left+9.0/99*(width-left-right))*10) / 10, 191}}, circles)
	c.LogX = true
	circles, _, _ = shapes(t, c.SVG())
	require.Equal(t, Point{(left + width - right) / 2, 191}, circles[2], "half way by logarithms")
	c.Unit = true
	c.Dots[0].Points = []Point{{0.5, 0.5}}
	circles, _, _ = shapes(t, c.SVG())
	require.Equal(t, []Point{{(left + width - right) / 2, 191}}, circles)
}

// TestWhatIsNotThere: a chart without anything, with one point, and with what no axis has a place for.
func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, c := range []Chart{
		{}, {Unit: true}, {LogX: true},
		{Dots: []Dots{{Points: []Point{{5, 5}}}}},
		{LogX: true, Dots: []Dots{{Points: []Point{{5, 5}, {0, 1}, {-3, 1}, {math.NaN(), 1}, {1, math.Inf(1)}}}}},
		{Bars: []Bar{{"none", 0}}},
		{Lines: []Line{{Name: "nothing", Color: Grey}}},
	} {
		svg := c.SVG()
		require.NotRegexp(t, "NaN|Inf", string(svg))
		circles, _, count := shapes(t, svg)
		require.Equal(t, 1, count["svg"])
		require.LessOrEqual(t, len(circles), 1, "what has no place is left out")
	}
}

// TestLabels: names are escaped, beside their dots, and not on one another.
func TestLabels(t *testing.T) {
	t.Parallel()
	c := Chart{Title: `<&">`, Dots: []Dots{{Points: []Point{{0, 0}, {9, 9}, {9, 9}, {9, 8.9}},
		Labels: []string{"left", "right <1>", "right & 2"}, Color: Grey}}}
	svg := string(c.SVG())
	_, texts, count := shapes(t, []byte(svg))
	for _, want := range []string{`<&">`, "left", "right <1>", "right & 2"} {
		require.Contains(t, texts, want)
	}
	require.Equal(t, 4, count["circle"], "a dot need not have a name")
	var at []string
	for line := range strings.Lines(svg) {
		if strings.Contains(line, "right ") {
			at = append(at, strings.SplitN(line, " text-anchor", 2)[0])
		}
	}
	require.Len(t, at, 2)
	require.NotEqual(t, at[0], at[1])
}

// TestBars: one for each value, from the axis at 0, those below it too.
func TestBars(t *testing.T) {
	t.Parallel()
	c := Chart{Bars: []Bar{{"up", 2}, {"down", -1}}}
	svg := string(c.SVG())
	_, texts, count := shapes(t, []byte(svg))
	require.Equal(t, 3, count["rect"], "the ground and two bars")
	require.Contains(t, texts, "down")
	h := height - top - barBottom
	require.Contains(t, svg, fmt.Sprintf(`y="%s" width="24" height="%s"`, num(top), num(h*2/3)))
	require.Contains(t, svg, fmt.Sprintf(`y="%s" width="24" height="%s"`, num(top+h*2/3), num(h/3)))
}

// TestLegend names the lines that have a name, with their colour and dashes.
func TestLegend(t *testing.T) {
	t.Parallel()
	points := []Point{{0, 0}, {1, 1}}
	c := Chart{Lines: []Line{{Name: "mix", Points: points, Color: Grey, Dash: []float64{7, 4}},
		{Points: points, Color: Blue}}}
	svg := string(c.SVG())
	_, texts, _ := shapes(t, []byte(svg))
	require.Contains(t, texts, "mix")
	require.Equal(t, 2, strings.Count(svg, `stroke-dasharray="7 4"`), "the line and its sample")
	require.Equal(t, 1, strings.Count(svg, `stroke="`+string(Blue)+`"`), "a line without a name has no sample")
}

// TestAnyChart: whatever is drawn is XML, and every dot that has a place lies in the field.
func TestAnyChart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Float64Range(-1e12, 1e12), rapid.Float64Range(-1, 1),
			rapid.SampledFrom([]float64{0, 1, math.NaN(), math.Inf(1)}))
		point := rapid.Custom(func(t *rapid.T) Point { return Point{number.Draw(t, "x"), number.Draw(t, "y")} })
		points := rapid.SliceOfN(point, 0, 9)
		text := rapid.StringOf(rapid.RuneFrom(nil, unicode.L, unicode.P, unicode.S))
		c := Chart{Title: text.Draw(t, "title"), LogX: rapid.Bool().Draw(t, "log"),
			Lines: []Line{{Name: "line", Points: points.Draw(t, "line"), Color: Blue}},
			Dots:  []Dots{{Points: points.Draw(t, "dots"), Labels: []string{"a", "b"}, Color: Grey}}}
		svg := c.SVG()
		circles, _, _ := shapes(t, svg)
		require.NotRegexp(t, "NaN|Inf", string(svg[bytes.Index(svg, []byte("<rect")):]))
		for _, p := range circles {
			require.True(t, p.X >= left-0.1 && p.X <= width-right+0.1 && p.Y >= top-0.1 && p.Y <= height-bottom+0.1, p)
		}
	})
}
