package measure

import (
	"fmt"
	"math"
	"slices"

	"github.com/fareway/fareway/modules/internal/chart"
)

// How the lines of the drawings are dashed.
var (
	dotted = []float64{3, 3}
	dashed = []float64{7, 4}
)

// CurveSVG draws quality over cost: the router, the best random mix of the single models, the models, and what a
// router that knows the answers could do.
func (r *Result) CurveSVG() []byte {
	c := &r.Curve
	drawn := chart.Chart{Title: r.Dataset, XLabel: "US dollars for 1,000 prompts", YLabel: "mean score"}
	scale := 1000.0
	if c.Shares {
		drawn.XLabel = "percent of prompts sent to the stronger model"
		scale = 100
	}
	if len(c.Singles) == 0 {
		drawn.Title += ": nobody knows what its answers cost"
		return drawn.SVG()
	}
	drawn.LogX = !c.Shares && allCost(c.Singles)
	first, last := c.Singles[0].Cost, c.Singles[0].Cost
	for _, s := range c.Singles {
		first, last = min(first, s.Cost), max(last, s.Cost)
	}
	drawn.Lines = []chart.Line{
		{Name: "knowing the answers", Points: scaled(bend(c.Oracle, first, last), scale), Color: chart.Green, Dash: dotted},
		{Name: "best random mix", Points: scaled(bend(c.Mix, first, last), scale), Color: chart.Grey, Dash: dashed},
		{Name: "router", Points: scaled(bend(c.Router, first, last), scale), Color: chart.Blue},
	}
	drawn.Dots = []chart.Dots{{Points: scaled(c.Singles, scale), Labels: c.Models, Color: chart.Grey}}
	return drawn.SVG()
}

// allCost says that there is something, and that each costs something: what is free has no logarithm.
func allCost(points []Point) bool {
	return len(points) > 0 && !slices.ContainsFunc(points, func(p Point) bool { return p.Cost <= 0 })
}

// bend takes points of a hull between two costs, close enough for an axis of logarithms.
func bend(h []Point, low, high float64) []Point {
	const n = 100
	out := make([]Point, 0, n+1)
	for i := range n + 1 {
		x := low + (high-low)*float64(i)/n
		if low > 0 {
			x = low * math.Pow(high/low, float64(i)/n)
		}
		out = append(out, Point{x, height(h, x)})
	}
	return out
}

// scaled are points of a drawing: costs in its unit.
func scaled(points []Point, scale float64) []chart.Point {
	out := make([]chart.Point, len(points))
	for i, p := range points {
		out[i] = chart.Point{X: p.Cost * scale, Y: p.Quality}
	}
	return out
}

// CalibrationSVG draws how often predictions come true.
func (r *Result) CalibrationSVG() []byte {
	points := make([]chart.Point, len(r.Curve.Calibration))
	for i, b := range r.Curve.Calibration {
		points[i] = chart.Point{X: b.Predicted, Y: b.True}
	}
	drawn := chart.Chart{
		Title: r.Dataset + ": ten bins of predictions", XLabel: "predicted score", YLabel: "mean score", Unit: true,
		Lines: []chart.Line{
			{Points: []chart.Point{{X: 0, Y: 0}, {X: 1, Y: 1}}, Color: chart.Grey},
			{Points: points, Color: chart.Blue},
		},
		Dots: []chart.Dots{{Points: points, Color: chart.Blue}},
	}
	return drawn.SVG()
}

// TasksSVG draws the area of each task that has 20 prompts or more.
func (r *Result) TasksSVG() []byte {
	drawn := chart.Chart{Title: r.Dataset + ": area by task", YLabel: "over the best random mix"}
	const most = 20
	for _, t := range r.Curve.Tasks[:min(len(r.Curve.Tasks), most)] {
		drawn.Bars = append(drawn.Bars, chart.Bar{Label: fmt.Sprintf("%s (%d)", t.Name, t.N), Value: t.Area})
	}
	if len(drawn.Bars) == 0 {
		drawn.Title += ": none has 20 prompts and costs"
	}
	return drawn.SVG()
}
