package pool

import "slices"

// Median returns the median of one or more values, which it sorts: the one in the middle, or the mean of the two there
// (gonum's stat.Quantile takes the lower one). Of integers it drops a half.
func Median[T int64 | float64](values []T) T {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// MedianDistance returns the median distance of two or more ascending times, to a microsecond.
func MedianDistance(times []Micros) Micros {
	distances := make([]Micros, len(times)-1)
	for i := range distances {
		distances[i] = times[i+1] - times[i]
	}
	return Median(distances)
}
