package allocation

import (
	"slices"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/counts"
)

// needs are the classes that metrics are made from.
var needs = map[string][]counts.Class{
	"allocatedPercent": {counts.Claimed, counts.Unclaimed}, "available": {counts.Claimed, counts.Unclaimed},
	"allocated": {counts.Claimed}, "free": {counts.Free}, "unclaimed": {counts.Unclaimed},
	"drained": {counts.Drained}, "prevented": {counts.Prevented},
}

// ClassesOf are the classes that metrics are made from.
func ClassesOf(metrics []string) (all []counts.Class) {
	for _, m := range metrics {
		for _, class := range needs[m] {
			if !slices.Contains(all, class) {
				all = append(all, class)
			}
		}
	}
	return all
}

// point is a bucket of a group's GPU-slices.
type point struct {
	sums   *counts.Sums
	bucket int
	slices float64 // N
}

func (p *point) of(class counts.Class) float64 { return p.sums[class][p.bucket] }

// allocatedPercent is the allocated share of the GPUs that can be; NaN if there are none.
func (p *point) allocatedPercent() float64 {
	return aggregate.Percent(p.of(counts.Claimed), p.of(counts.Claimed)+p.of(counts.Unclaimed))
}

func (p *point) available() float64 {
	return (p.of(counts.Claimed) + p.of(counts.Unclaimed)) / p.slices
}

// average is the number of GPUs that count as a class, on average over the slices.
func average(class counts.Class) func(*point) float64 {
	return func(p *point) float64 { return p.of(class) / p.slices }
}
