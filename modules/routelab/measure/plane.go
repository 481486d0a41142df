package measure

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"

	"github.com/fareway/fareway/modules/internal/chart"
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
	return hull(pointsOf(p.Routes))
}

func pointsOf(named []Named) []Point {
	points := make([]Point, len(named))
	for i, n := range named {
		points[i] = n.Point
	}
	return points
}

// SVG draws the plane.
func (p *Plane) SVG() []byte {
	const scale = 1000
	drawn := chart.Chart{
		Title: "profiles on the reference workload", XLabel: "US dollars for 1,000 requests",
		YLabel: "mean quality, as expected",
		LogX:   allCost(pointsOf(slices.Concat(p.Profiles, p.Routes))),
	}
	if len(p.Routes) > 0 {
		mix := p.mix()
		drawn.Lines = append(drawn.Lines, chart.Line{Name: "best random mix of routes", Color: chart.Grey, Dash: dashed,
			Points: scaled(bend(mix, mix[0].Cost, mix[len(mix)-1].Cost), scale)})
	}
	if len(p.Frontier) > 0 {
		drawn.Lines = append(drawn.Lines, chart.Line{Name: "the rule, at any rate", Color: chart.Blue,
			Points: scaled(p.Frontier, scale)})
	}
	for _, d := range []struct {
		points []Named
		color  chart.Color
	}{{p.Routes, chart.Grey}, {p.Profiles, chart.Blue}} {
		names := make([]string, len(d.points))
		for i, n := range d.points {
			names[i] = n.Name
		}
		drawn.Dots = append(drawn.Dots, chart.Dots{Points: scaled(pointsOf(d.points), scale), Labels: names, Color: d.color})
	}
	return drawn.SVG()
}

// Report writes a folder with the drawing as SVG, and index.html with it.
func (p *Plane) Report(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of the report: %w", err)
	}
	drawing := p.SVG()
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
	err := planePage.Execute(&b, struct {
		Rows    []row
		Drawing template.HTML
	}{rows, template.HTML(drawing)})
	if err != nil {
		return fmt.Errorf("making the page of the report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "index.html"), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing the page of the report: %w", err)
	}
	return nil
}
