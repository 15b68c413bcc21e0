package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// plot is a line chart.
type plot struct {
	name   string // of the file, without .svg
	title  string
	x, y   axis
	series []series
	marks  bool // draw a mark at every point, with its figure if there are few
}

// axis is one of the two axes of a plot.
type axis struct {
	label string
	log   bool
	zero  bool // begins with zero
}

type series struct {
	name   string
	points []point
}

type point struct{ x, y float64 }

// The picture's shape, in pixels.
const (
	svgWidth  = 720
	svgHeight = 400
	svgLeft   = 74
	svgRight  = 40
	svgTop    = 74
	svgBottom = 56
)

// style is legible on light and on dark pages: the plot has no background of its own.
const style = `<style>
text { font: 13px system-ui, sans-serif; fill: #374151 }
.title { font-size: 15px; font-weight: 600; fill: #111827 }
.grid { stroke: #d1d5db; stroke-width: 1 }
.axis { stroke: #6b7280; stroke-width: 1 }
.line { fill: none; stroke-width: 2.5; stroke-linejoin: round }
.s0 { stroke: #0369a1 } .f0 { fill: #0369a1 }
.s1 { stroke: #c2410c; stroke-dasharray: 7 4 } .f1 { fill: #c2410c }
@media (prefers-color-scheme: dark) {
text { fill: #d1d5db }
.title { fill: #f3f4f6 }
.grid { stroke: #374151 }
.axis { stroke: #9ca3af }
.s0 { stroke: #38bdf8 } .f0 { fill: #38bdf8 }
.s1 { stroke: #fb923c } .f1 { fill: #fb923c }
}
</style>
`

// svg returns the plot as SVG.
func (p plot) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", svgWidth, svgHeight, html.EscapeString(p.title))
	b.WriteString(style)
	fmt.Fprintf(&b, `<text class="title" x="%d" y="22">%s</text>`+"\n", svgLeft, html.EscapeString(p.title))
	p.legend(&b)
	xs, ys := p.scale(p.x, svgLeft, svgWidth-svgRight, func(q point) float64 { return q.x }), p.scale(p.y, svgHeight-svgBottom, svgTop, func(q point) float64 { return q.y })
	for _, t := range xs.ticks() {
		at := xs.at(t)
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", at, svgTop, at, svgHeight-svgBottom, at, svgHeight-svgBottom+20, limit(t))
	}
	for _, t := range ys.ticks() {
		at := ys.at(t)
		fmt.Fprintf(&b, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", svgLeft, at, svgWidth-svgRight, at, svgLeft-8, at+4.5, limit(t))
	}
	fmt.Fprintf(&b, `<path class="axis" fill="none" d="M%d %dV%dH%d"/>`+"\n", svgLeft, svgTop, svgHeight-svgBottom, svgWidth-svgRight)
	middle := (svgTop + svgHeight - svgBottom) / 2
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (svgLeft+svgWidth-svgRight)/2, svgHeight-14, html.EscapeString(p.x.label))
	fmt.Fprintf(&b, `<text transform="translate(18 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", middle, html.EscapeString(p.y.label))
	for i, s := range p.series {
		p.draw(&b, i, s, xs, ys)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p plot) legend(b *strings.Builder) {
	x := svgLeft
	for i, s := range p.series {
		fmt.Fprintf(b, `<line class="line s%d" x1="%d" y1="44" x2="%d" y2="44"/><text x="%d" y="48.5">%s</text>`+"\n", i%2, x, x+28, x+36, html.EscapeString(s.name))
		x += 60 + 7*len(s.name)
	}
}

// mostFigures is how many figures can be written at the marks of a line and still be
// read.
const mostFigures = 5

// draw draws a line with its marks.
func (p plot) draw(b *strings.Builder, i int, s series, xs, ys scale) {
	var path strings.Builder
	for j, q := range s.points {
		fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[j == 0], xs.at(q.x), ys.at(q.y))
	}
	fmt.Fprintf(b, `<path class="line s%d" d="%s"/>`+"\n", i%2, path.String())
	if !p.marks {
		return
	}
	for j, q := range s.points {
		fmt.Fprintf(b, `<circle class="f%d" cx="%.1f" cy="%.1f" r="4"/>`, i%2, xs.at(q.x), ys.at(q.y))
		if len(s.points) > mostFigures {
			continue
		}
		anchor, x := "middle", xs.at(q.x)
		switch j {
		case 0: // not across the axis
			anchor, x = "start", x+4
		case len(s.points) - 1:
			anchor = "end"
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, ys.at(q.y)-10, anchor, figure(q.y))
	}
}

// scale maps values onto pixels.
type scale struct {
	low, high  float64 // of the values, or of their logarithms if log
	from, upto float64 // pixels
	log        bool
}

func (p plot) scale(a axis, from, upto float64, of func(point) float64) scale {
	s := scale{low: math.Inf(1), high: math.Inf(-1), from: from, upto: upto, log: a.log}
	for _, line := range p.series {
		for _, q := range line.points {
			if v := s.value(of(q)); !math.IsNaN(v) && !math.IsInf(v, 0) {
				s.low, s.high = min(s.low, v), max(s.high, v)
			}
		}
	}
	if math.IsInf(s.low, 0) {
		s.low, s.high = 0, 1
	}
	if a.zero {
		s.low = min(s.low, 0)
	}
	if a.log { // begin and end at round values
		s.low, s.high = roundDown(s.low), -roundDown(-s.high)
		return s
	}
	// Room, so that nothing touches the frame.
	room := (s.high - s.low) * 0.06
	if room == 0 {
		room = max(math.Abs(s.high)*0.1, 0.1)
	}
	s.high += room
	if !a.zero {
		s.low -= room
	}
	return s
}

func (s scale) value(v float64) float64 {
	if s.log {
		return math.Log10(v)
	}
	return v
}

func (s scale) at(v float64) float64 {
	return s.from + (s.value(v)-s.low)/(s.high-s.low)*(s.upto-s.from)
}

// roundDown returns the logarithm of the largest 1, 2 or 5 times a power of ten that is
// not above x, itself a logarithm; -roundDown(-x) is that of the smallest not below.
func roundDown(x float64) float64 {
	const near = 1e-9
	floor := math.Floor(x + near)
	for _, k := range []float64{5, 2} {
		// The steps of -x are those of x from the other side: log 5 = 1 - log 2.
		if step := floor + math.Log10(k); step <= x+near {
			return step
		}
	}
	return floor
}

// ticks returns round values within the scale: 1, 2 and 5 times every power of ten, or
// the powers alone if there are many.
func (s scale) ticks() []float64 {
	if !s.log {
		return s.evenTicks()
	}
	const near = 1e-9
	steps := []float64{1, 2, 5}
	if s.high-s.low > 3 {
		steps = steps[:1]
	}
	var list []float64
	for e := math.Floor(s.low); e <= s.high; e++ {
		for _, k := range steps {
			if v := k * math.Pow(10, e); math.Log10(v) >= s.low-near && math.Log10(v) <= s.high+near {
				list = append(list, v)
			}
		}
	}
	return list
}

func (s scale) evenTicks() []float64 {
	step := math.Pow(10, math.Floor(math.Log10((s.high-s.low)/4)))
	for _, k := range []float64{5, 2} {
		if (s.high-s.low)/(k*step) >= 4 {
			step *= k
			break
		}
	}
	var list []float64
	for v := math.Ceil(s.low/step) * step; v <= s.high; v += step {
		list = append(list, math.Abs(v)) // no value is below zero, and Abs removes the sign of -0
	}
	return list
}
