// Package aggregate is shared by the kinds that add figures up by group: keys of groups, metrics with their figures,
// and the frames of summaries, series and hours of the week.
package aggregate

import (
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Metric is a column of answers, and how its figure is read off the sums of a group; NaN if it has none.
type Metric[S any] struct {
	query.Column
	Figure func(*S) float64
}

// Metrics are the metrics of a kind, each once.
type Metrics[S any] []Metric[S]

// Define returns a metric: its name, label, unit, decimals and description (see [query.Metric]), and its figure.
func Define[S any](name, label, unit string, decimals int, description string, figure func(*S) float64) Metric[S] {
	return Metric[S]{query.Metric(name, label, unit, decimals, description), figure}
}

// Columns returns the columns of the metrics, for the description of a kind.
func (m Metrics[S]) Columns() []query.Column {
	columns := make([]query.Column, len(m))
	for i := range m {
		columns[i] = m[i].Column
	}
	return columns
}

// Names returns the names of the metrics.
func (m Metrics[S]) Names() []string {
	names := make([]string, len(m))
	for i := range m {
		names[i] = m[i].Name
	}
	return names
}

// Without returns the metrics, without figures of those that lack them by their names.
func (m Metrics[S]) Without(lack func(name string) bool) Metrics[S] {
	m = slices.Clone(m)
	for i := range m {
		if lack(m[i].Name) {
			m[i].Figure = func(*S) float64 { return math.NaN() }
		}
	}
	return m
}

// Values returns the figures of named metrics.
func (m Metrics[S]) Values(names []string, of *S) []float64 {
	values := make([]float64, len(names))
	for i, figure := range m.Functions(names) {
		values[i] = figure(of)
	}
	return values
}

// Functions returns how the figures of named metrics are read off sums.
func (m Metrics[S]) Functions(names []string) []func(*S) float64 {
	figures := make([]func(*S) float64, len(names))
	for i, name := range names {
		figures[i] = m[slices.IndexFunc(m, func(of Metric[S]) bool { return of.Name == name })].Figure
	}
	return figures
}

// LeastHours are the GPU-hours below which there is no rate or share of them, because it would be meaningless.
const LeastHours = 1

// TooFew reports whether there are fewer; a sum of hours is as exact as floating point is.
func TooFew(hours float64) bool { return hours < LeastHours*(1-1e-9) }

// Percent is 100·a/b, NaN if b is 0.
func Percent(a, b float64) float64 { return Ratio(100*a, b) }

// Ratio is a/b, NaN if b is 0.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

// Figures are the sums of a window, in no order of groups.
type Figures[S any] struct {
	Groups []Group[S]
	Total  S             // only in a table
	Times  []pool.Micros // when the points of a series are
}

// Group is the sum of one group.
type Group[S any] struct {
	Texts  []string // by the plan's groupings, as answers show them
	Sums   S        // only in a table
	Points []S      // only in a series
	Drawn  []bool   // whether there is a point; nil: there is each
}

// Frames returns the table of the view `summary`, otherwise series.
func (f *Figures[S]) Frames(metrics Metrics[S], p *query.Plan, about *frames.About) data.Frames {
	if p.View != "summary" {
		return f.series(metrics, p, about)
	}
	values := func(s *S) []float64 { return metrics.Values(p.Metrics, s) }
	rows := make([]frames.Row, len(f.Groups))
	for i := range f.Groups {
		rows[i] = frames.Row{Group: f.Groups[i].Texts, Values: values(&f.Groups[i].Sums)}
	}
	return frames.Table(p, about, rows, frames.Total{Name: "All", Values: values(&f.Total)})
}

func (f *Figures[S]) series(metrics Metrics[S], p *query.Plan, about *frames.About) data.Frames {
	var all []frames.Series
	figures := metrics.Functions(p.Metrics)
	for i := range f.Groups {
		g := &f.Groups[i]
		var times []pool.Micros
		var points []*S
		for b := range g.Points {
			if g.Drawn == nil || g.Drawn[b] {
				times, points = append(times, f.Times[b]), append(points, &g.Points[b])
			}
		}
		for m, name := range p.Metrics {
			values := make([]float64, len(points))
			for n, of := range points {
				values[n] = figures[m](of)
			}
			all = append(all, frames.Series{Group: g.Texts, Metric: name, Times: times, Values: values})
		}
	}
	return frames.TimeSeries(p, about, all)
}

// Times returns the times of the points of buckets: their beginnings; of the whole window the beginning of its newest
// slice, or another time if it has no slice.
func Times(buckets query.Buckets, slices []pool.Micros, other pool.Micros) []pool.Micros {
	if !buckets.Whole {
		return buckets.Starts[:buckets.Len()]
	}
	if n := len(slices); n > 0 {
		other = slices[n-1]
	}
	return []pool.Micros{other}
}

// Week is the sum of each weekday (0 = Monday) and local hour.
type Week[S any] [7][24]S

// Values returns the figures of a metric.
func (w *Week[S]) Values(metrics Metrics[S], name string) *frames.Week {
	figure := metrics.Functions([]string{name})[0]
	var values frames.Week
	for day := range w {
		for hour := range w[day] {
			values[day][hour] = figure(&w[day][hour])
		}
	}
	return &values
}

// Key is what a thing is counted, filtered and grouped by: the value of each grouping, as a symbol or a small number,
// so that keys compare and hash quickly. Groupings that do not matter are zero.
type Key [query.NumGroupings]uint32

// KeyOf returns the key of a GPU at a place, by its slot of the backfill pool.
func KeyOf(p timeline.Place) Key {
	k := Key{query.ByDevice: uint32(p.Device), query.ByMachine: uint32(p.Machine), query.ByMemory: uint32(p.Memory),
		query.ByOwnership: uint32(p.Ownership), query.ByTier: uint32(p.Tier)}
	if p.Ownership == pool.OpenCapacity {
		k[query.ByMachineType] = 1
	}
	k.SetRow(p.Ownership, pool.Backfill, 0, 0)
	return k
}

// SetRow sets what a row adds to the key of its GPU, whose machine has an owner: its side, projects and user.
func (k *Key) SetRow(owner pool.Ownership, side pool.Side, project, user timeline.Symbol) {
	k[query.ByCategory], k[query.BySlots] = uint32(pool.CategoryOf(side, owner, project != 0)), uint32(side)
	k[query.ByProject], k[query.ByUser] = uint32(project), uint32(user)
}

// Within returns the values of some groupings; the others are zero.
func (k Key) Within(by []query.Grouping) (within Key) {
	for _, g := range by {
		within[g] = k[g]
	}
	return within
}

// Text returns a value of a grouping, as it is stored. names are the texts of symbols.
func Text(g query.Grouping, value uint32, lists pool.Lists, names []string) string {
	switch d := &query.Groupings[g]; {
	case d.Text != nil:
		return d.Text(value, lists, names)
	case d.Values != nil:
		return d.Values[value]
	}
	return names[value]
}

// Texts returns the values of groupings, as answers to a plan show them. names are the texts of symbols.
func (k Key) Texts(p *query.Plan, by, names []string) []string {
	texts := make([]string, len(by))
	for i, name := range by {
		// no user has no text, an unnamed user has Unknown
		if g, known := query.GroupingOf(name); known && (g != query.ByTakenOver || k[g] != 0) {
			texts[i] = p.Shown(name, Text(g, k[g], p.Env.Lists, names))
		}
	}
	return texts
}

// Filter is a query's filter of things that have keys. It is safe for concurrent use.
type Filter []test

// test is the part of a filter about one grouping.
type test struct {
	by     query.Grouping
	passes func(value uint32) bool
}

// NewFilter returns the filter of a plan. names are the texts of symbols.
func NewFilter(p *query.Plan, names []string) (f Filter) {
	for g := range query.NumGroupings {
		if p.Select.All(g) {
			continue
		}
		f = append(f, test{g, func(value uint32) bool {
			return (g != query.ByTakenOver || value != 0) && p.Select.Match(g, Text(g, value, p.Env.Lists, names))
		}})
	}
	return f
}

// Split divides the filter into the parts about some groupings, and about the others.
func (f Filter) Split(belongs func(query.Grouping) bool) (those, others Filter) {
	those = slices.DeleteFunc(slices.Clone(f), func(t test) bool { return !belongs(t.by) })
	return those, slices.DeleteFunc(slices.Clone(f), func(t test) bool { return belongs(t.by) })
}

// Keeps reports whether a thing passes.
func (f Filter) Keeps(k Key) bool {
	return !slices.ContainsFunc(f, func(t test) bool { return !t.passes(k[t.by]) })
}
