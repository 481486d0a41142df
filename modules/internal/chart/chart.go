// Package chart draws small charts as SVG: lines and named dots over two axes, or bars. A drawing has its own colours
// and font sizes, and needs no style sheet, script or font of the page that shows it.
package chart

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
)

// Color is a CSS colour.
type Color string

// The colours that stay apart on white, also in print.
const (
	Blue  Color = "#1f66b0"
	Grey  Color = "#808080"
	Green Color = "#3a8a3a"
)

// Point is a place in the units of the axes.
type Point struct{ X, Y float64 }

// Line joins points; Dash are the lengths of strokes and gaps, none is a solid one. What has a Name is in the legend.
type Line struct {
	Name   string
	Points []Point
	Color  Color
	Dash   []float64
}

// Dots are single points. Labels are beside them, in their order; there may be none.
type Dots struct {
	Points []Point
	Labels []string
	Color  Color
}

// Bar is one bar of a chart of bars, from 0 up or down.
type Bar struct {
	Label string
	Value float64
}

// Chart is what is drawn. Points that are not finite are left out, and with LogX those at 0 or below.
type Chart struct {
	Title, XLabel, YLabel string
	LogX                  bool
	// Unit gives both axes 0 to 1; otherwise they span what is drawn.
	Unit  bool
	Lines []Line
	Dots  []Dots
	Bars  []Bar // named below the axis; such a chart has neither lines nor dots
}

// Sizes in user units. The drawing scales with its page.
const (
	width, height            = 640.0, 400.0
	left, right, top, bottom = 64.0, 16.0, 34.0, 52.0
	barBottom                = 120.0 // room for the names of bars, which are turned
	size                     = 11.0
	perLetter                = 0.56 // of a letter's height, roughly its width
)

// SVG draws the chart, 640 by 400 units.
func (c *Chart) SVG() []byte {
	f := c.frame()
	d := &drawing{frame: f}
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" `+
		`font-family="sans-serif" font-size="%s">`+"\n", num(width), num(height), num(width), num(height), num(size))
	d.printf("<title>%s</title>\n", html.EscapeString(c.Title))
	d.printf(`<rect width="%s" height="%s" fill="#fff"/>`+"\n", num(width), num(height))
	d.text(width/2, 20, "middle", "#000", c.Title)
	d.text(left+f.w/2, height-12, "middle", "#000", c.XLabel)
	d.printf(`<text transform="translate(16 %s) rotate(-90)" text-anchor="middle">%s</text>`+"\n",
		num(top+f.h/2), html.EscapeString(c.YLabel))
	d.axes(len(c.Bars) == 0)
	d.bars(c.Bars)
	for _, l := range c.Lines {
		d.line(l)
	}
	for _, dots := range c.Dots {
		d.dots(dots)
	}
	d.legend(c.Lines)
	d.printf("</svg>\n")
	return d.Bytes()
}

// frame is where the axes lie and what they span.
type frame struct {
	w, h                   float64 // of the field between the axes
	xMin, xMax, yMin, yMax float64
	log                    bool
}

func (c *Chart) frame() frame {
	f := frame{w: width - left - right, h: height - top - bottom, log: c.LogX && !c.Unit}
	if len(c.Bars) > 0 {
		f.h = height - top - barBottom
		for i, b := range c.Bars {
			f.span(Point{float64(i) + 0.5, b.Value}, i == 0)
		}
		f.xMin, f.xMax = 0, float64(len(c.Bars))
		f.yMin, f.yMax = min(f.yMin, 0), max(f.yMax, 0)
	}
	first := true
	for _, p := range c.points() {
		if f.has(p) {
			f.span(p, first)
			first = false
		}
	}
	switch {
	case c.Unit:
		f.xMin, f.xMax, f.yMin, f.yMax = 0, 1, 0, 1
	case first && f.log:
		f.xMin, f.xMax = 1, 10
	}
	f.widen()
	return f
}

func (c *Chart) points() []Point {
	var all []Point
	for _, l := range c.Lines {
		all = append(all, l.Points...)
	}
	for _, d := range c.Dots {
		all = append(all, d.Points...)
	}
	return all
}

func (f *frame) has(p Point) bool {
	return !math.IsNaN(p.X+p.Y) && !math.IsInf(p.X+p.Y, 0) && (!f.log || p.X > 0)
}

func (f *frame) span(p Point, first bool) {
	if first {
		f.xMin, f.xMax, f.yMin, f.yMax = p.X, p.X, p.Y, p.Y
	}
	f.xMin, f.xMax = min(f.xMin, p.X), max(f.xMax, p.X)
	f.yMin, f.yMax = min(f.yMin, p.Y), max(f.yMax, p.Y)
}

// widen gives an axis on which everything is at one place a length.
func (f *frame) widen() {
	if f.yMax <= f.yMin {
		f.yMin, f.yMax = f.yMin-0.5, f.yMax+0.5
	}
	switch {
	case f.xMax > f.xMin:
	case f.log:
		f.xMin, f.xMax = f.xMin/2, f.xMax*2
	default:
		f.xMin, f.xMax = f.xMin-0.5, f.xMax+0.5
	}
}

// place is a point in user units.
func (f *frame) place(p Point) (x, y float64) {
	share := (p.X - f.xMin) / (f.xMax - f.xMin)
	if f.log {
		share = (math.Log(p.X) - math.Log(f.xMin)) / (math.Log(f.xMax) - math.Log(f.xMin))
	}
	return left + share*f.w, top + f.h - (p.Y-f.yMin)/(f.yMax-f.yMin)*f.h
}

// box is a rectangle that a label covers.
type box struct{ x, y, w, h float64 }

func (b box) meets(o box) bool {
	return b.x < o.x+o.w && o.x < b.x+b.w && b.y < o.y+o.h && o.y < b.y+b.h
}

// drawing is the SVG as far as it is written.
type drawing struct {
	bytes.Buffer
	frame
	taken []box // by labels
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.Buffer, format, args...) }

func (d *drawing) text(x, y float64, anchor string, color Color, text string) {
	if text != "" {
		d.printf(`<text x="%s" y="%s" text-anchor="%s" fill="%s">%s</text>`+"\n",
			num(x), num(y), anchor, color, html.EscapeString(text))
	}
}

func (d *drawing) stroke(x1, y1, x2, y2 float64, color Color) {
	d.printf(`<path d="M%s %sL%s %s" stroke="%s"/>`+"\n", num(x1), num(y1), num(x2), num(y2), color)
}

const faint Color = "#e4e4e4"

// axes draws the two axes with a faint grid; the marks of X only where it has numbers.
func (d *drawing) axes(numbers bool) {
	for _, v := range linearTicks(d.yMin, d.yMax, 6) {
		_, y := d.place(Point{d.xMin, v})
		d.stroke(left, y, left+d.w, y, faint)
		d.text(left-6, y+size/3, "end", "#000", label(v))
	}
	if numbers {
		ticks := linearTicks(d.xMin, d.xMax, 8)
		if d.log {
			ticks = logTicks(d.xMin, d.xMax)
		}
		for _, v := range ticks {
			x, _ := d.place(Point{v, d.yMin})
			d.stroke(x, top, x, top+d.h, faint)
			d.text(x, top+d.h+16, "middle", "#000", label(v))
		}
	}
	d.printf(`<path d="M%s %sV%sH%s" fill="none" stroke="#000"/>`+"\n", num(left), num(top), num(top+d.h), num(left+d.w))
}

func (d *drawing) line(l Line) {
	started := false
	for _, p := range l.Points {
		if !d.has(p) {
			continue
		}
		if !started {
			d.printf(`<path fill="none" stroke="%s" stroke-width="2"%s d="M`, l.Color, dashes(l.Dash))
			started = true
		}
		x, y := d.place(p)
		d.printf("%s %s ", num(x), num(y))
	}
	if started {
		d.printf(`"/>` + "\n")
	}
}

func dashes(lengths []float64) string {
	if len(lengths) == 0 {
		return ""
	}
	text := ""
	for _, l := range lengths {
		text += " " + num(l)
	}
	return fmt.Sprintf(` stroke-dasharray="%s"`, text[1:])
}

func (d *drawing) dots(dots Dots) {
	for i, p := range dots.Points {
		if !d.has(p) {
			continue
		}
		x, y := d.place(p)
		d.printf(`<circle cx="%s" cy="%s" r="3.5" fill="%s"/>`+"\n", num(x), num(y), dots.Color)
		if i < len(dots.Labels) {
			d.label(x, y, dots.Color, dots.Labels[i])
		}
	}
}

// label writes a dot's name at the first of its four corners where it lies in the field and on no other name, or at
// the first of all.
func (d *drawing) label(x, y float64, color Color, text string) {
	w := perLetter * size * float64(len([]rune(text)))
	corners := []box{{x + 5, y + 2, w, size}, {x + 5, y - size - 2, w, size},
		{x - 5 - w, y + 2, w, size}, {x - 5 - w, y - size - 2, w, size}}
	at := corners[0]
	for _, b := range corners {
		inside := b.x >= left && b.x+b.w <= width && b.y >= top && b.y+b.h <= top+d.h
		if inside && !slices.ContainsFunc(d.taken, b.meets) {
			at = b
			break
		}
	}
	d.taken = append(d.taken, at)
	d.text(at.x, at.y+size-2, "start", color, text)
}

func (d *drawing) bars(bars []Bar) {
	for i, b := range bars {
		x, y := d.place(Point{float64(i) + 0.5, b.Value})
		_, zero := d.place(Point{0, 0})
		w := min(24, 0.7*d.w/float64(len(bars)))
		d.printf(`<rect x="%s" y="%s" width="%s" height="%s" fill="%s"/>`+"\n",
			num(x-w/2), num(min(y, zero)), num(w), num(math.Abs(zero-y)), Blue)
		d.printf(`<text transform="translate(%s %s) rotate(-45)" text-anchor="end">%s</text>`+"\n",
			num(x+4), num(top+d.h+12), html.EscapeString(b.Label))
	}
}

// legend names the lines, in the corner where quality is high and cost is low: few dots are there.
func (d *drawing) legend(lines []Line) {
	y := top + 12
	for _, l := range lines {
		if l.Name == "" {
			continue
		}
		d.printf(`<path d="M%s %sh24" stroke="%s" stroke-width="2"%s/>`+"\n", num(left+8), num(y), l.Color, dashes(l.Dash))
		d.text(left+38, y+size/3, "start", "#000", l.Name)
		y += 16
	}
}

// num writes a length with one digit behind the point.
func num(v float64) string { return fmt.Sprintf("%g", math.Round(v*10)/10) }

// label writes a tick's value, which has few digits but for what an addition leaves behind them.
func label(v float64) string { return fmt.Sprintf("%.10g", v) }
