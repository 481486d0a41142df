package measure

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

var (
	blue  = color.RGBA{R: 0x1f, G: 0x66, B: 0xb0, A: 0xff}
	grey  = color.RGBA{R: 0x80, G: 0x80, B: 0x80, A: 0xff}
	green = color.RGBA{R: 0x3a, G: 0x8a, B: 0x3a, A: 0xff}
)

const (
	width = 6.5 * vg.Inch
	tall  = 4 * vg.Inch
)

// CurveSVG draws quality over cost: the router, the best random mix of the single models, the models, and what a router
// that knows the answers could do.
func (r *Result) CurveSVG() ([]byte, error) {
	c := &r.Curve
	p := plot.New()
	p.Title.Text = r.Dataset
	p.Y.Label.Text = "mean score"
	p.X.Label.Text = "US dollars for 1,000 prompts"
	scale := 1000.0
	if c.Shares {
		p.X.Label.Text = "percent of prompts sent to the stronger model"
		scale = 100
	}
	if len(c.Singles) == 0 {
		p.Title.Text += ": nobody knows what its answers cost"
		return svg(p)
	}
	if !c.Shares && !slices.ContainsFunc(c.Singles, func(s Point) bool { return s.Cost <= 0 }) {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	}
	first, last := c.Singles[0].Cost, c.Singles[0].Cost
	for _, s := range c.Singles {
		first, last = min(first, s.Cost), max(last, s.Cost)
	}
	draws := []struct {
		name   string
		points []Point
		color  color.Color
		dashes []vg.Length
	}{
		{"knowing the answers", c.Oracle, green, []vg.Length{vg.Points(2), vg.Points(2)}},
		{"best random mix", c.Mix, grey, []vg.Length{vg.Points(5), vg.Points(3)}},
		{"router", c.Router, blue, nil},
	}
	for _, d := range draws {
		line, err := plotter.NewLine(steps(d.points, first, last, scale))
		if err != nil {
			return nil, fmt.Errorf("drawing a curve: %w", err)
		}
		line.Color, line.Dashes, line.Width = d.color, d.dashes, vg.Points(1.5)
		p.Add(line)
		p.Legend.Add(d.name, line)
	}
	xy := xys(c.Singles, scale)
	dots, err := plotter.NewScatter(xy)
	if err != nil {
		return nil, fmt.Errorf("drawing the models: %w", err)
	}
	dots.Shape, dots.Radius, dots.Color = draw.CircleGlyph{}, vg.Points(2.5), grey
	names, err := plotter.NewLabels(plotter.XYLabels{XYs: xy, Labels: c.Models})
	if err != nil {
		return nil, fmt.Errorf("naming the models: %w", err)
	}
	for i := range names.TextStyle {
		names.TextStyle[i].Font.Size = vg.Points(6)
		names.TextStyle[i].Color = grey
	}
	names.Offset = vg.Point{X: vg.Points(3), Y: vg.Points(-6)}
	p.Add(dots, names)
	p.Legend.Top, p.Legend.Left = true, true
	return svg(p)
}

// steps are points of a hull between two costs, close enough for an axis of logarithms.
func steps(h []Point, low, high, scale float64) plotter.XYs {
	const n = 100
	out := make(plotter.XYs, 0, n+1)
	for i := range n + 1 {
		x := low + (high-low)*float64(i)/n
		if low > 0 {
			x = low * math.Pow(high/low, float64(i)/n)
		}
		out = append(out, plotter.XY{X: x * scale, Y: height(h, x)})
	}
	return out
}

func xys(points []Point, scale float64) plotter.XYs {
	out := make(plotter.XYs, len(points))
	for i, p := range points {
		out[i] = plotter.XY{X: p.Cost * scale, Y: p.Quality}
	}
	return out
}

// decades marks 1, 2 and 5 of each power of ten.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(low, high float64) []plot.Tick {
	var out []plot.Tick
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= low && v <= high {
				out = append(out, plot.Tick{Value: v, Label: fmt.Sprintf("%g", round(v))})
			}
		}
	}
	return out
}

// CalibrationSVG draws how often predictions come true.
func (r *Result) CalibrationSVG() ([]byte, error) {
	p := plot.New()
	p.Title.Text = r.Dataset + ": ten bins of predictions"
	p.X.Label.Text, p.Y.Label.Text = "predicted score", "mean score"
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
	xy := make(plotter.XYs, len(r.Curve.Calibration))
	for i, b := range r.Curve.Calibration {
		xy[i] = plotter.XY{X: b.Predicted, Y: b.True}
	}
	diagonal, err := plotter.NewLine(plotter.XYs{{X: 0, Y: 0}, {X: 1, Y: 1}})
	if err != nil {
		return nil, fmt.Errorf("drawing the diagonal: %w", err)
	}
	diagonal.Color = grey
	line, dots, err := plotter.NewLinePoints(xy)
	if err != nil {
		return nil, fmt.Errorf("drawing the calibration: %w", err)
	}
	line.Color, dots.Color, dots.Shape = blue, blue, draw.CircleGlyph{}
	p.Add(plotter.NewGrid(), diagonal, line, dots)
	return svg(p)
}

// TasksSVG draws the area of each task that has 20 prompts or more.
func (r *Result) TasksSVG() ([]byte, error) {
	p := plot.New()
	p.Title.Text = r.Dataset + ": area by task"
	p.Y.Label.Text = "over the best random mix"
	tasks := r.Curve.Tasks
	if len(tasks) == 0 {
		p.Title.Text += ": none has 20 prompts and costs"
		return svg(p)
	}
	const most = 20
	tasks = tasks[:min(len(tasks), most)]
	values, names := make(plotter.Values, len(tasks)), make([]string, len(tasks))
	for i, t := range tasks {
		values[i], names[i] = t.Area, fmt.Sprintf("%s (%d)", t.Name, t.N)
	}
	bars, err := plotter.NewBarChart(values, vg.Points(10))
	if err != nil {
		return nil, fmt.Errorf("drawing the tasks: %w", err)
	}
	bars.Color, bars.LineStyle.Width = blue, 0
	p.Add(bars, plotter.NewGrid())
	p.NominalX(names...)
	p.X.Tick.Label.Rotation = math.Pi / 3
	p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = draw.XRight, draw.YCenter
	p.X.Tick.Label.Font.Size = vg.Points(7)
	return svg(p)
}

func svg(p *plot.Plot) ([]byte, error) {
	c := vgsvg.New(width, tall)
	p.Draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("writing a drawing: %w", err)
	}
	return b.Bytes(), nil
}
