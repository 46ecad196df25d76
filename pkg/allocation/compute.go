package allocation

import (
	"math"
	"slices"

	"github.com/chtc/gpureports/pkg/counts"
)

// needs are the classes that a metric is made from.
func needs(metric string) []counts.Class {
	switch metric {
	case "allocatedPercent", "available":
		return []counts.Class{counts.Claimed, counts.Unclaimed}
	case "allocated":
		return []counts.Class{counts.Claimed}
	case "free":
		return []counts.Class{counts.Free}
	case "unclaimed":
		return []counts.Class{counts.Unclaimed}
	case "drained":
		return []counts.Class{counts.Drained}
	case "prevented":
		return []counts.Class{counts.Prevented}
	}
	return nil
}

func classesOf(metrics []string) (all []counts.Class) {
	for _, m := range metrics {
		for _, class := range needs(m) {
			if !slices.Contains(all, class) {
				all = append(all, class)
			}
		}
	}
	return all
}

// metric is the formula of methodology section 5 over the sums of GPU-slices in a bucket and its N; NaN where it has
// none.
func metric(name string, sums *counts.Sums, bucket, n int) float64 {
	switch name {
	case "allocatedPercent":
		available := sums[counts.Claimed][bucket] + sums[counts.Unclaimed][bucket]
		if available == 0 {
			return math.NaN()
		}
		return 100 * sums[counts.Claimed][bucket] / available
	case "available":
		return (sums[counts.Claimed][bucket] + sums[counts.Unclaimed][bucket]) / float64(n)
	}
	return sums[needs(name)[0]][bucket] / float64(n)
}
