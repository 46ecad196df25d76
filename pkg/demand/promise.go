package demand

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/survival"
)

// How likely a job starts soon, and how often the usual wait was kept (methodology sections 18 and 21).

// isWithin reports whether a metric is of the share that starts within an age.
func isWithin(metric string) bool {
	return slices.Contains([]string{"withinPercent", "withinLow", "withinHigh"}, metric)
}

// fewestWithin is how many waits must be known from an early age on for a share that started within an age.
const fewestWithin = 5

// isFromCurve reports whether a metric is read from the survival curve of a group.
func isFromCurve(metric string) bool {
	return metric == "medianWaitHours" || metric == "p90WaitHours" || isWithin(metric)
}

// within returns the share of a cohort with a survival curve, in percent, that starts within an age, and its 95 %
// interval; NaN if too few are known from an early age on, or the curve ends before the age.
func within(c *survival.Cohort, curve *survival.Curve, age pool.Micros) (percent, low, high float64) {
	early, longest := 0, pool.Micros(0)
	for _, it := range *c {
		if 2*it.Entry <= age {
			early++
		}
		longest = max(longest, it.Exit)
	}
	none := math.NaN()
	if early < fewestWithin {
		return none, none, none
	}
	at := curve.At(age)
	if at.Survival > 0 && longest < age {
		return none, none, none
	}
	low, high = at.Interval()
	return 100 * (1 - at.Survival), 100 * (1 - high), 100 * (1 - low)
}

const (
	usualDays    = 7  // before a day, whose waits give its usual wait
	fewestUsual  = 20 // waits that a share of kept usual waits rests on
	wholeOfUsual = pool.Micros(1) << 60
)

// usualReach is the window of the waits that p90Held needs for a window.
func usualReach(w pool.Window) pool.Window {
	return pool.Window{From: w.From - usualDays*pool.Day, To: w.To}
}

// p90Held returns the share of the waits that begin in a window, in percent, that are at most as long as the usual wait
// of their UTC day: the age at which a tenth of the waits of the seven days before still waited. all are the waits of
// one group that overlap usualReach. NaN if too few have a usual wait, or the curve ends before it.
func p90Held(all []*Wait, w pool.Window) float64 {
	days := int((w.To-w.From)/pool.Day) + 2
	begun := make([][]*Wait, days)
	first := (w.From + pool.Day - 1) / pool.Day
	for _, it := range all {
		if day := it.Begin/pool.Day - first; w.Contains(it.Begin) && day >= 0 {
			begun[day] = append(begun[day], it)
		}
	}
	// Find the usual wait of each day, and measure the day's waits by it.
	byEnd := slices.Clone(all)
	slices.SortFunc(byEnd, func(a, b *Wait) int { return cmp.Compare(a.End, b.End) })
	held := &survival.Cohort{}
	longest := pool.Micros(0)
	for day, waits := range begun {
		if len(waits) == 0 {
			continue
		}
		begin := (first + pool.Micros(day)) * pool.Day
		past := pool.Window{From: begin - usualDays*pool.Day, To: begin}
		from := sort.Search(len(byEnd), func(i int) bool { return byEnd[i].End >= past.From })
		usual, reached := CohortOf(byEnd[from:], past).KaplanMeier().AtMost(0.1)
		if !reached {
			continue
		}
		for _, it := range *CohortOf(waits, w) {
			scaled := survival.Item{Entry: shareOfUsual(it.Entry, usual), Exit: shareOfUsual(it.Exit, usual), Fate: it.Fate}
			if it.Exit > usual { // it matters only that the wait was longer
				scaled.Exit, scaled.Fate = wholeOfUsual+1, survival.Censored
			}
			if it.Entry >= usual {
				scaled.Entry = wholeOfUsual
			}
			longest = max(longest, scaled.Exit)
			*held = append(*held, scaled)
		}
	}
	if len(*held) < fewestUsual {
		return math.NaN()
	}
	at := held.KaplanMeier().At(wholeOfUsual)
	if at.Survival > 0 && longest < wholeOfUsual {
		return math.NaN()
	}
	return 100 * (1 - at.Survival)
}

// shareOfUsual is an age up to the usual wait as a share of it, in units of 1/wholeOfUsual.
func shareOfUsual(age, usual pool.Micros) pool.Micros {
	if age >= usual {
		return wholeOfUsual
	}
	high, low := bits.Mul64(uint64(age), uint64(wholeOfUsual))
	share, _ := bits.Div64(high, low, uint64(usual))
	return pool.Micros(share)
}
