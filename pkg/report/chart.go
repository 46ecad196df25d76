package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
)

// Chart is a drawing in SVG's coordinates, Width x Height, with its text.
type Chart struct {
	Width, Height float64
	Plot          Box // the area of the data
	YTitle        string
	XTitle        string
	X, Y          []Tick
	Shapes        []Shape
	Bars          []Bar
	Told          []string // for those who cannot see it
	Note          string   // beneath it
}

// Box is a rectangle.
type Box struct{ Left, Top, Right, Bottom float64 }

// Tick is a mark of an axis: its position and its text.
type Tick struct {
	At    float64
	Label string
}

// Shape is an area, a line or a band.
type Shape struct {
	Kind  string // area, line, band
	Color int    // 1 to 6
	Name  string
	Path  string
}

// Bar is a horizontal bar with its name before it and its value after it.
type Bar struct {
	Y, Length   float64
	Name, Value string
}

const (
	chartWidth  = 820
	chartHeight = 300
	colors      = 6
)

func newChart() *Chart {
	return &Chart{Width: chartWidth, Height: chartHeight, Plot: Box{56, 24, chartWidth - 16, chartHeight - 44}}
}

// scale maps [low, high] to [from, to].
func scale(value, low, high, from, to float64) float64 {
	if high == low {
		return from
	}
	return from + (value-low)/(high-low)*(to-from)
}

// outline draws functions that keep each value until the next one, as an SVG path: a line, or the area between high and
// low. A piece ends where high has no value (NaN), at the x there unless that is NaN too.
func outline(xs, high, low []float64) string {
	var path strings.Builder
	to := func(command string, coordinate float64) {
		path.WriteString(command + strconv.FormatFloat(math.Round(coordinate*10)/10, 'f', -1, 64))
	}
	for i := 0; i < len(xs); i++ {
		if math.IsNaN(high[i]) {
			continue
		}
		first := i
		to("M", xs[i])
		to(" ", high[i])
		for i++; i < len(xs) && !math.IsNaN(high[i]); i++ {
			to("H", xs[i])
			to("V", high[i])
		}
		ends := i < len(xs) && !math.IsNaN(xs[i])
		if ends {
			to("H", xs[i])
		}
		if low == nil {
			continue
		}
		for k := i - 1; k >= first; k-- {
			to("V", low[k])
			if ends || k < i-1 {
				to("H", xs[k])
			}
		}
		path.WriteByte('Z')
	}
	return path.String()
}

// axis returns at most n+1 ticks from 0 to the highest value or above, at multiples of 1, 2 or 5 times a power of ten.
func axis(highest float64, n int) (values []float64, last float64) {
	if highest <= 0 {
		highest = 1
	}
	power := math.Pow(10, math.Floor(math.Log10(highest/float64(n))))
	step := power
	for _, factor := range []float64{2, 5, 10} {
		if highest/step > float64(n) {
			step = power * factor
		}
	}
	for i := 0; ; i++ {
		last = float64(i) * step
		if values = append(values, last); last >= highest*(1-1e-9) {
			return values, last
		}
	}
}

func label(value, step float64) string {
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	return frames.Thousands(strconv.FormatFloat(value, 'f', digits, 64))
}

// allocationChart stacks the GPUs in use by category over time; each is in one at a time. A missing value is 0.
func allocationChart(o Options, frames data.Frames) Block {
	frames = slices.DeleteFunc(slices.Clone(frames), func(f *data.Frame) bool { return len(f.Fields) != 2 })
	times, values := byTime(frames, func(field *data.Field, row int) float64 {
		if v := number(field, row); !math.IsNaN(v) {
			return v
		}
		return 0
	})
	if len(times) == 0 {
		return Block{}
	}
	// Stack the series: each lies on the sum of those before it.
	length := o.To.Sub(o.From) // a bucket's
	for i := range times[1:] {
		length = min(length, times[i+1].Sub(times[i]))
	}
	stack := [][]float64{make([]float64, len(times))} // the sums of no frame, the first one, the first two …, by time
	for i := range frames {
		sums := slices.Clone(stack[i])
		for k, t := range times {
			sums[k] += values[t][i]
		}
		stack = append(stack, sums)
	}

	// Draw the axes, then an area for each series.
	c := newChart()
	c.YTitle, c.XTitle = "GPUs in use", o.Zone.String()
	from, to := float64(o.From.UnixMilli()), float64(o.To.UnixMilli())
	x := func(t time.Time) float64 {
		return scale(min(max(float64(t.UnixMilli()), from), to), from, to, c.Plot.Left, c.Plot.Right)
	}
	marks, top := axis(slices.Max(stack[len(frames)]), 5)
	y := func(v float64) float64 { return scale(v, 0, top, c.Plot.Bottom, c.Plot.Top) }
	for _, v := range marks {
		c.Y = append(c.Y, Tick{y(v), label(v, marks[1])})
	}
	c.X = o.timeTicks(x)
	for i, frame := range frames {
		least, most := math.Inf(1), 0.0
		for _, of := range values {
			least, most = min(least, of[i]), max(most, of[i])
		}
		name := clean(frame.Fields[1].Labels["category"])
		c.Shapes = append(c.Shapes, Shape{Kind: "area", Color: i%colors + 1, Name: name,
			Path: area(times, length, stack[i], stack[i+1], x, y)})
		c.Told = append(c.Told, fmt.Sprintf("%s: between %.1f and %.1f", name, least, most))
	}
	return Block{Chart: c}
}

// area fills the space between two values at each time, each bucket as a step; there is none in gaps.
func area(times []time.Time, length time.Duration, low, high []float64, x func(time.Time) float64,
	y func(float64) float64) string {
	var xs, lows, highs []float64
	for i, t := range times {
		xs, lows, highs = append(xs, x(t)), append(lows, y(low[i])), append(highs, y(high[i]))
		if i+1 == len(times) || times[i+1].Sub(t) > length*3/2 { // a gap begins at the bucket's end
			xs, lows, highs = append(xs, x(t.Add(length))), append(lows, math.NaN()), append(highs, math.NaN())
		}
	}
	return outline(xs, highs, lows)
}

// timeTicks are marks at calendar times of the report's zone.
func (o Options) timeTicks(x func(time.Time) float64) (ticks []Tick) {
	from, to := o.From.In(o.Zone), o.To.In(o.Zone)
	hours := to.Sub(from).Hours()
	step := 1
	for _, step = range []int{1, 3, 6, 12, 24, 48, 7 * 24, 14 * 24, 28 * 24, 91 * 24, 365 * 24} {
		if hours/float64(step) <= 9 {
			break
		}
	}
	for t := time.Date(from.Year(), from.Month(), from.Day(), 0, 0, 0, 0, o.Zone); !t.After(to); {
		if !t.Before(from) {
			label := t.Format("Jan 2")
			if t.Hour() != 0 || t.Minute() != 0 {
				label = t.Format("15:04")
			}
			ticks = append(ticks, Tick{x(t), label})
		}
		next := t.AddDate(0, 0, step/24)
		if step < 24 {
			next = time.Date(t.Year(), t.Month(), t.Day(), t.Hour()/step*step+step, 0, 0, 0, o.Zone)
		}
		if !next.After(t) { // an hour that the clock skips
			next = t.Add(time.Duration(step) * time.Hour)
		}
		t = next
	}
	return ticks
}

// survivalChart draws curves with their 95 % bands.
func survivalChart(_ Options, frames data.Frames) Block {
	c := newChart()
	c.YTitle, c.XTitle = "Share", "Hours"
	for _, frame := range frames {
		hours, _ := frame.FieldByName("hours")
		if hours == nil || hours.Len() == 0 {
			continue
		}
		// Draw the axes.
		values, last := axis(number(hours, hours.Len()-1), 10)
		x := func(row int) float64 { return scale(number(hours, row), 0, last, c.Plot.Left, c.Plot.Right) }
		y := func(v float64) float64 { return scale(v, 0, 1, c.Plot.Bottom, c.Plot.Top) }
		for _, v := range values {
			c.X = append(c.X, Tick{scale(v, 0, last, c.Plot.Left, c.Plot.Right), label(v, values[1])})
		}
		for _, v := range []float64{0, 0.25, 0.5, 0.75, 1} {
			c.Y = append(c.Y, Tick{y(v), fmt.Sprintf("%.0f %%", 100*v)})
		}
		// Draw each curve above all bands.
		var curves, bands []Shape
		for i, field := range frame.Fields {
			if field.Name != "survival" {
				continue
			}
			line := Shape{Kind: "line", Color: len(curves)%colors + 1, Name: SeriesName(field, "All", clean),
				Path: steps(field, nil, x, y)}
			curves = append(curves, line)
			if i+2 < len(frame.Fields) && frame.Fields[i+1].Name == "low" && frame.Fields[i+2].Name == "high" {
				bands = append(bands, Shape{Kind: "band", Color: line.Color, Name: line.Name,
					Path: steps(frame.Fields[i+2], frame.Fields[i+1], x, y)})
			}
			c.Told = append(c.Told, line.Name+": "+endOf(hours, field))
		}
		c.Shapes = append(bands, curves...)
	}
	if len(c.Shapes) == 0 {
		return Block{}
	}
	return Block{Chart: c}
}

// endOf says where a curve ends.
func endOf(hours, field *data.Field) string {
	for r := field.Len() - 1; r >= 0; r-- {
		if v := number(field, r); !math.IsNaN(v) {
			return fmt.Sprintf("%.0f %% after %.1f hours", 100*v, number(hours, r))
		}
	}
	return "no curve"
}

// steps draws a curve, or the band between two, where there are values.
func steps(high, low *data.Field, x func(int) float64, y func(float64) float64) string {
	var xs, highs, lows []float64
	for r := range high.Len() {
		at, value := x(r), y(number(high, r))
		if low != nil {
			lows = append(lows, y(number(low, r)))
		}
		if math.IsNaN(value) || low != nil && math.IsNaN(lows[r]) {
			at, value = math.NaN(), math.NaN()
		}
		xs, highs = append(xs, at), append(highs, value)
	}
	return outline(xs, highs, lows)
}

// userChart draws the hours of the users with the most, who come first.
func userChart(o Options, frames data.Frames) Block {
	const most, height, nameWidth, valueWidth = 12, 24, 230, 70
	users := slices.DeleteFunc(records(frames), func(r record) bool { return r.text(rowType) != "user" })
	if len(users) == 0 {
		return Block{}
	}
	// Draw a bar for each of them.
	shown := users[:min(len(users), most)]
	c := &Chart{Width: chartWidth, Height: float64(len(shown))*height + 8,
		Plot: Box{nameWidth, 4, chartWidth - valueWidth, 0}}
	for i, r := range shown {
		length := scale(r.number("gpuHours"), 0, users[0].number("gpuHours"), 0, c.Plot.Right-c.Plot.Left)
		bar := Bar{Y: float64(i) * height, Length: math.Round(10*length) / 10, Value: o.cell(r.field("gpuHours"), r.row),
			Name: screen.Truncate(clean(r.text("user")), 32, "…")}
		c.Bars, c.Told = append(c.Bars, bar), append(c.Told, bar.Name+": "+bar.Value)
	}
	if more := len(users) - len(shown); more > 0 {
		c.Note = fmt.Sprintf("The %d users with the most hours; %d more are in the table.", len(shown), more)
	}
	return Block{Chart: c}
}
