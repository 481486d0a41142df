package measure

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"image/color"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

//go:embed plane.tmpl
var planeText string

var planePage = template.Must(template.New("plane").Parse(planeText))

// Named is a point with a name.
type Named struct {
	Name string
	Point
}

// Plane is profiles beside single routes, on a workload: mean quality, 0 to 1, over mean cost, in US dollars for a
// request.
type Plane struct {
	Profiles, Routes []Named
	Frontier         []Point // of the rule, by cost
}

// Mix is the quality that the best random mix of the routes has at a cost.
func (p *Plane) Mix(cost float64) float64 {
	if len(p.Routes) == 0 {
		return 0
	}
	return height(p.mix(), cost)
}

// MixFor is the cost at which the best random mix of the routes reaches a quality; false where none does.
func (p *Plane) MixFor(quality float64) (float64, bool) {
	if len(p.Routes) == 0 {
		return 0, false
	}
	return costFor(p.mix(), quality)
}

func (p *Plane) mix() []Point {
	points := make([]Point, len(p.Routes))
	for i, r := range p.Routes {
		points[i] = r.Point
	}
	return hull(points)
}

// SVG draws the plane.
func (p *Plane) SVG() ([]byte, error) {
	drawn := plot.New()
	drawn.Title.Text = "profiles on the reference workload"
	drawn.Y.Label.Text, drawn.X.Label.Text = "mean quality, as expected", "US dollars for 1,000 requests"
	const scale = 1000
	all := slices.Concat(p.Profiles, p.Routes)
	if len(all) > 0 && !slices.ContainsFunc(all, func(n Named) bool { return n.Cost <= 0 }) {
		drawn.X.Scale, drawn.X.Tick.Marker = plot.LogScale{}, decades{}
	}
	for _, d := range []struct {
		name   string
		points []Point
		color  color.Color
		dashes []vg.Length
	}{
		{"best random mix of routes", p.drawnMix(), grey, []vg.Length{vg.Points(5), vg.Points(3)}},
		{"the rule, at any rate", p.Frontier, blue, nil},
	} {
		if len(d.points) == 0 {
			continue
		}
		line, err := plotter.NewLine(xys(d.points, scale))
		if err != nil {
			return nil, fmt.Errorf("drawing a curve: %w", err)
		}
		line.Color, line.Dashes, line.Width = d.color, d.dashes, vg.Points(1.5)
		drawn.Add(line)
		drawn.Legend.Add(d.name, line)
	}
	for _, d := range []struct {
		name   string
		points []Named
		color  color.Color
	}{{"routes", p.Routes, grey}, {"profiles", p.Profiles, blue}} {
		if len(d.points) == 0 {
			continue
		}
		at, labels := make([]Point, len(d.points)), make([]string, len(d.points))
		for i, n := range d.points {
			at[i], labels[i] = n.Point, n.Name
		}
		xy := xys(at, scale)
		dots, err := plotter.NewScatter(xy)
		if err != nil {
			return nil, fmt.Errorf("drawing the %s: %w", d.name, err)
		}
		dots.Shape, dots.Radius, dots.Color = draw.CircleGlyph{}, vg.Points(3), d.color
		names, err := plotter.NewLabels(plotter.XYLabels{XYs: xy, Labels: labels})
		if err != nil {
			return nil, fmt.Errorf("naming the %s: %w", d.name, err)
		}
		for i := range names.TextStyle {
			names.TextStyle[i].Font.Size, names.TextStyle[i].Color = vg.Points(8), d.color
		}
		names.Offset = vg.Point{X: vg.Points(4), Y: vg.Points(-8)}
		drawn.Add(dots, names)
	}
	if len(all) > 0 {
		drawn.X.Max *= 1.3 // room for the dearest one's name
	}
	drawn.Legend.Top, drawn.Legend.Left = true, true
	return svg(drawn)
}

// drawnMix is the hull, with points between that an axis of logarithms bends.
func (p *Plane) drawnMix() []Point {
	if len(p.Routes) == 0 {
		return nil
	}
	h := p.mix()
	var out []Point
	for _, xy := range steps(h, h[0].Cost, h[len(h)-1].Cost, 1) {
		out = append(out, Point{xy.X, xy.Y})
	}
	return out
}

// Report writes a folder with the drawing as SVG, and index.html with it.
func (p *Plane) Report(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of the report: %w", err)
	}
	drawing, err := p.SVG()
	if err != nil {
		return fmt.Errorf("drawing the profiles: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "profiles.svg"), drawing, 0o644); err != nil {
		return fmt.Errorf("writing a drawing: %w", err)
	}
	type row struct{ Name, Quality, Cost string }
	var rows []row
	for _, list := range [...][]Named{p.Profiles, p.Routes} {
		for _, n := range list {
			rows = append(rows, row{n.Name, fmt.Sprintf("%.3f", n.Quality), fmt.Sprintf("%.4f", 1000*n.Cost)})
		}
	}
	var b bytes.Buffer
	err = planePage.Execute(&b, struct {
		Rows    []row
		Drawing template.HTML
	}{rows, inPage(drawing)})
	if err != nil {
		return fmt.Errorf("making the page of the report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "index.html"), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing the page of the report: %w", err)
	}
	return nil
}
