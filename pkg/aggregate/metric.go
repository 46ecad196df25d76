// Package aggregate is shared by the kinds that add figures up by group: keys of groups, metrics with their figures,
// and the frames of summaries, series and hours of the week.
package aggregate

import (
	"math"
	"slices"

	"github.com/chtc/gpureports/pkg/query"
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
	for i, figure := range m.Figures(names) {
		values[i] = figure(of)
	}
	return values
}

// Figures returns how the figures of named metrics are read off sums.
func (m Metrics[S]) Figures(names []string) []func(*S) float64 {
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
