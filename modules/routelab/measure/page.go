package measure

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
)

//go:embed page.tmpl
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// figure is one figure with its interval, for people.
type figure struct{ Name, Value, Interval, Shuffled string }

// Names are the figures in the order in which people read them.
var Names = []string{"area", "saved95", "saved98", "saved100", "regret", "apgr", "cpt50", "cpt80"}

// Report writes a folder with the drawings of each data set as SVG, and index.html with all of them.
func Report(dir string, results []*Result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of the report: %w", err)
	}
	type section struct {
		Name, Harm string
		N          int
		Figures    []figure
		Drawings   []template.HTML
	}
	var sections []section
	for _, r := range results {
		s := section{Name: r.Dataset, N: r.N}
		for _, name := range Names {
			if v, ok := r.Value[name]; ok {
				f := figure{Name: name, Value: fmt.Sprintf("%.4f", v),
					Interval: fmt.Sprintf("%.4f to %.4f", r.Low[name], r.High[name])}
				if v, ok := r.Shuffled[name]; ok {
					f.Shuffled = fmt.Sprintf("%.4f", v)
				}
				s.Figures = append(s.Figures, f)
			}
		}
		if len(r.LeftOut) > 0 {
			s.Harm = fmt.Sprintf("%.4f", r.Harm())
		}
		for _, d := range []struct {
			name string
			draw func() []byte
		}{{"curve", r.CurveSVG}, {"calibration", r.CalibrationSVG}, {"tasks", r.TasksSVG}} {
			drawing := d.draw()
			file := filepath.Join(dir, filepath.Base(r.Dataset)+"-"+d.name+".svg")
			if err := os.WriteFile(file, drawing, 0o644); err != nil {
				return fmt.Errorf("writing a drawing: %w", err)
			}
			s.Drawings = append(s.Drawings, template.HTML(drawing))
		}
		sections = append(sections, s)
	}
	var b bytes.Buffer
	if err := page.Execute(&b, sections); err != nil {
		return fmt.Errorf("making the page of the report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "index.html"), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing the page of the report: %w", err)
	}
	return nil
}
