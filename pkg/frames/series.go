package frames

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// Series is one metric of one group over time.
type Series struct {
	Group  []string // by the plan's groupings
	Metric string
	Times  []pool.Micros // ascending
	Values []float64     // NaN: no point
	Hidden bool          // in the answer, but neither drawn nor in legends
}

// mostSeries is how many series or curves there are, unless the query has a limit.
const mostSeries = 100

// TimeSeries returns one frame per series (timeseries-multi), ordered by group, then by metric in the query's order.
// Points without a value and series without a point are left out.
func TimeSeries(p *query.Plan, a *About, all []Series) data.Frames {
	slices.SortStableFunc(all, func(x, y Series) int {
		return cmp.Or(query.CompareGroups(p.GroupBy, x.Group, y.Group),
			cmp.Compare(slices.Index(p.Metrics, x.Metric), slices.Index(p.Metrics, y.Metric)))
	})
	all = slices.DeleteFunc(all, func(s Series) bool { return !slices.ContainsFunc(s.Values, finite) })
	shown := all[:a.cut(p, len(all), mostSeries, "series")]
	shown = shown[:a.fit(len(shown), "series", func(i int) int { return len(shown[i].Values) })]
	var frames data.Frames
	var config *data.FieldConfig
	if p.Bucket != nil {
		config = &data.FieldConfig{Interval: float64(pointDistance(p).Milliseconds())}
	}
	timeField := func(times []pool.Micros) *data.Field {
		at := make([]time.Time, len(times))
		for i, t := range times {
			at[i] = pool.Time(t)
		}
		return data.NewField("time", nil, at).SetConfig(config)
	}
	var of []pool.Micros // most series have the same times and share their field
	var shared *data.Field
	for _, s := range shown {
		if len(of) != len(s.Times) || &of[0] != &s.Times[0] {
			of, shared = s.Times, timeField(s.Times)
		}
		// Leave out points without a value.
		times, values := shared, s.Values
		if slices.ContainsFunc(s.Values, func(v float64) bool { return !finite(v) }) {
			var at []pool.Micros
			values = nil
			for i, v := range s.Values {
				if finite(v) {
					at, values = append(at, s.Times[i]), append(values, v)
				}
			}
			times = timeField(at)
		}
		// Name and describe the series.
		labels := labelsOf(p, s.Group)
		value := data.NewField(s.Metric, labels, values)
		value.Config = column(p, s.Metric)
		value.Config.Decimals = nil // axes choose their own
		value.Config.DisplayNameFromDS = seriesName(p, s.Group, s.Metric)
		value.Config.Custom = categoryKey(p, s.Group)
		if s.Hidden {
			hidden := map[string]any{"hideFrom": map[string]bool{"viz": true, "legend": true, "tooltip": true}}
			maps.Copy(hidden, value.Config.Custom)
			value.Config.Custom = hidden
		}
		if len(p.Metrics) > 1 {
			labels["metric"] = s.Metric
		}
		f := data.NewFrame("", times, value)
		f.Meta = meta(data.FrameTypeTimeSeriesMulti)
		frames = append(frames, f)
	}
	return a.Finish(frames)
}

func labelsOf(p *query.Plan, group []string) data.Labels {
	labels := data.Labels{}
	for g, name := range p.GroupBy {
		labels[name] = group[g]
	}
	return labels
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// pointDistance is the longest distance between neighboring buckets in a plan's window: the bucket, or an hour more
// if a clock change lengthens one. (Grafana takes a longer distance to mean missing points, and uses the shortest for
// the width of bars.)
func pointDistance(p *query.Plan) time.Duration {
	longest := time.Duration(p.Bucket.Minutes) * time.Minute
	if p.Bucket.Minutes > 60 {
		for start := p.Bucket.Floor(p.Window.From, p.Location); start <= p.Window.To; {
			next := p.Bucket.Next(start, p.Location)
			longest = max(longest, time.Duration(next-start)*time.Microsecond)
			start = next
		}
	}
	return longest
}

// categoryKey is the field's `custom` with the key of the group's category.
func categoryKey(p *query.Plan, group []string) map[string]any {
	if i := slices.Index(p.GroupBy, "category"); i >= 0 {
		if c, ok := pool.ParseCategory(group[i]); ok {
			return map[string]any{"categoryKey": c.Key()}
		}
	}
	return nil
}

// Week holds a value for each weekday (0 = Monday) and local hour; NaN is null.
type Week [7][24]float64

// HeatMap returns a week as heatmap-cells: x is the hour, y the weekday, y fastest; 168 rows. If there is no value,
// there are no data.
func HeatMap(p *query.Plan, a *About, values *Week) data.Frames {
	var x, y []int64
	var cells []float64
	for hour := range 24 {
		for day := range 7 {
			x, y, cells = append(x, int64(hour)), append(y, int64(day)), append(cells, values[day][hour])
		}
	}
	if !slices.ContainsFunc(cells, finite) {
		return a.Finish(nil)
	}
	value := Number("value", cells)
	value.Config = column(p, p.Metrics[0])
	f := data.NewFrame("", data.NewField("x", nil, x), data.NewField("y", nil, y), value)
	f.Meta = meta(frameType(p))
	f.Meta.Custom = map[string]any{"yOrdinalDisplay": []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}}
	return a.Finish(data.Frames{f})
}

// States is the course of a GPU through a window, or of the GPUs of a device on a machine: a state at each time.
type States struct {
	Device, Machine, GPU string // no GPU: all of the device on the machine
	Times                []pool.Micros
	States               []int8  // negative: unknown
	Shares               []Share // in addition to the state, for several GPUs
}

// Share is the part of GPUs that are in a state, in percent, by the times of States; NaN if it is unknown.
type Share struct {
	State  string
	Values []float64
}

// StateTimeline returns a frame for each entry of all, at most most unless the query has a limit.
func StateTimeline(p *query.Plan, a *About, most int, all []States, mappings data.ValueMappings) data.Frames {
	what := "GPUs"
	if len(all) > 0 && all[0].GPU == "" {
		what = "machines and devices"
	}
	shown := all[:a.cut(p, len(all), most, what)]
	shown = shown[:a.fit(len(shown), what, func(i int) int { return len(shown[i].Times) * (1 + len(shown[i].Shares)) })]
	var frames data.Frames
	for i := range shown {
		s := &shown[i]
		labels := data.Labels{"device": s.Device, "machine": s.Machine}
		if s.GPU != "" {
			labels["gpu"] = s.GPU
		}
		name := s.name(p, labels)
		at, states := make([]time.Time, len(s.Times)), make([]*int8, len(s.Times))
		for k, t := range s.Times {
			at[k] = pool.Time(t)
			if s.States[k] >= 0 {
				states[k] = &s.States[k]
			}
		}
		state := data.NewField("state", labels, states)
		state.Config = column(p, "state")
		state.Config.DisplayNameFromDS, state.Config.Mappings = name, mappings
		f := data.NewFrame("", data.NewField("time", nil, at), state)
		for _, share := range s.Shares {
			field := Number(share.State, share.Values)
			field.Labels = labels
			field.Config.Unit, field.Config.DisplayNameFromDS = query.Percent, name+" "+share.State+" %"
			f.Fields = append(f.Fields, field)
		}
		f.Meta = meta(frameType(p))
		frames = append(frames, f)
	}
	return a.Finish(frames)
}

// name is the name by the query's legend, or otherwise that of the GPU, or of the device and machine.
func (s *States) name(p *query.Plan, labels data.Labels) string {
	device := cmp.Or(p.ShownAs("device")[s.Device], s.Device)
	name := p.Legend.Name(func(key string) string {
		if key == "device" {
			return device
		}
		return labels[key]
	})
	if s.GPU == "" {
		return cmp.Or(name, device+" · "+s.Machine)
	}
	return cmp.Or(name, s.Machine+" "+s.GPU)
}
