package aggregate

import "github.com/chtc/gpureports/pkg/frames"

// Week is the sum of each weekday (0 = Monday) and local hour.
type Week[S any] [7][24]S

// Figures returns the figures of a metric.
func (w *Week[S]) Figures(metrics Metrics[S], name string) *frames.Week {
	figure := metrics.Figures([]string{name})[0]
	var values frames.Week
	for day := range w {
		for hour := range w[day] {
			values[day][hour] = figure(&w[day][hour])
		}
	}
	return &values
}
