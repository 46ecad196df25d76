package evictions

import (
	"math"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/survival"
)

// Sums are what a group of runs adds up to (methodology section 8).
type Sums struct {
	Runs     int
	Unseen   int
	Outcomes [runs.Outcomes]int
	GPUHours float64
	Lost     float64   // GPU-hours of the evicted runs
	toEnd    []float64 // hours of the evicted runs
}

func (m *Sums) add(r *Run) {
	m.Runs++
	m.Outcomes[r.Result]++
	if r.Link == runs.AdOnly {
		m.Unseen++
	}
	m.GPUHours += r.gpuHours(r.Inside)
	if r.Result == runs.Evicted {
		m.Lost += r.gpuHours(r.Inside)
		m.toEnd = append(m.toEnd, pool.Hours(r.Whole()))
	}
}

// metric returns a metric; NaN where it has no value. hours are the GPU-hours that a rate counts over, blind says that
// completions cannot be seen.
func (m *Sums) metric(name string, hours float64, blind bool) float64 {
	evictions := m.Outcomes[runs.Evicted]
	switch name {
	case "runs":
		return float64(m.Runs)
	case "evictions":
		return float64(evictions)
	case "completed":
		return float64(m.Outcomes[runs.Completed])
	case "removed":
		return float64(m.Outcomes[runs.Removed])
	case "held":
		return float64(m.Outcomes[runs.Held])
	case "running":
		return float64(m.Outcomes[runs.Running])
	case "lost":
		return float64(m.Outcomes[runs.Lost])
	case "ambiguous":
		return float64(m.Outcomes[runs.Ambiguous])
	case "unseen":
		return float64(m.Unseen)
	case "gpuHours":
		return m.GPUHours
	case "ratePer100GpuHours":
		return rate(float64(evictions), hours)
	case "rateLow":
		low, _ := survival.Garwood(evictions)
		return rate(low, hours)
	case "rateHigh":
		_, high := survival.Garwood(evictions)
		return rate(high, hours)
	case "lostGpuHours":
		return m.Lost
	case "lostPercent":
		return share(m.Lost, m.GPUHours)
	}
	if blind {
		return math.NaN()
	}
	if name == "evictedPercent" {
		ended := evictions + m.Outcomes[runs.Completed] + m.Outcomes[runs.Removed] + m.Outcomes[runs.Held]
		return share(float64(evictions), float64(ended))
	}
	if len(m.toEnd) == 0 {
		return math.NaN()
	}
	return pool.Median(m.toEnd)
}

// leastHours are the GPU-hours below which there is no rate: it would say nothing (methodology section 8).
const leastHours = 1

// tooFew reports whether there is no rate over so many GPU-hours.
func tooFew(hours float64) bool {
	return hours < leastHours*(1-1e-9) // a sum of hours is as exact as floating point is
}

// rate is events per 100 GPU-hours, NaN over too few of them.
func rate(events, hours float64) float64 {
	if tooFew(hours) {
		return math.NaN()
	}
	return 100 * events / hours
}

// share is 100·a/b, NaN when b is 0.
func share(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return 100 * a / b
}

// item is a run as a survival curve takes it: eviction is the event, another end that is seen competes, and what goes
// on or was lost from sight is censored.
func (r *Run) item(w pool.Window) survival.Item {
	fate := survival.Competing
	switch r.Result {
	case runs.Evicted:
		fate = survival.Event
	case runs.Running, runs.Lost, runs.Ambiguous:
		fate = survival.Censored
	}
	return survival.Item{Entry: max(0, w.From-r.Start), Exit: r.Whole(), Fate: fate}
}
