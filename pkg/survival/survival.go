// Package survival estimates how long things last when not all of them are seen to end: Kaplan–Meier and
// Aalen–Johansen curves with right censoring and delayed entry, and the interval of a rate
// (methodology sections 7, 8 and 12; htcondor.md, "Statistics").
package survival

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/chtc/gpureports/pkg/pool"
)

// MinAtRisk is the number of items at risk below which a curve is not drawn.
const MinAtRisk = 5

// Fate is how an item's time under observation ended.
type Fate uint8

const (
	Censored  Fate = iota // still going on, or out of sight
	Event                 // the end that the curve describes
	Competing             // something that makes the event impossible; Kaplan–Meier treats it as censored
)

// Item is a thing under observation while its age is in (Entry, Exit]: it is at risk at age x if Entry < x ≤ Exit.
// Entry > 0 is delayed entry, at that age. An item with Entry ≥ Exit was never at risk.
type Item struct {
	Entry, Exit pool.Micros // ages
	Fate        Fate
}

// Point is a curve's value from an age onward, until the next point.
type Point struct {
	Age      pool.Micros
	Survival float64 // probability that the event has not happened up to Age, Age included
	Variance float64 // the variance of Survival
	AtRisk   int     // items at risk at Age
}

// Curve is an estimate of survival: 1 from age 0 to the first point, then a step at each age with an event.
type Curve struct {
	Points []Point
	// From is the age at which the curve begins (it is conditional on reaching it), Until the last age that it describes.
	From, Until pool.Micros
}

// KaplanMeier estimates the survival of all items, to the longest exit age.
func (c Cohort) KaplanMeier() Curve { return c.estimate(false) }

// AalenJohansen estimates 1 − cumulative incidence of the event, with the competing fate as another way to end.
// Without competing items it equals KaplanMeier.
func (c Cohort) AalenJohansen() Curve { return c.estimate(true) }

// Drawn estimates the curve where it is meaningful: from the smallest age at which at least MinAtRisk items are at risk
// until fewer are. It is conditional on reaching the age From, where it is 1. ok: there are ever that many.
func (c Cohort) Drawn(estimator func(Cohort) Curve) (drawn Curve, ok bool) {
	// Find the ages between which enough items are at risk.
	byExit, entries := c.sorted()
	from, until, first := pool.Micros(-1), pool.Micros(0), 0
	for entered, left := 0, 0; left < len(byExit) && until == 0; {
		age := byExit[left].Exit
		if entered < len(entries) {
			age = min(age, entries[entered])
		}
		for entered < len(entries) && entries[entered] <= age {
			entered++
		}
		for left < len(byExit) && byExit[left].Exit <= age {
			left++
		}
		switch atRisk := entered - left; { // right after the age
		case from < 0 && atRisk >= MinAtRisk:
			from, first = age, atRisk
		case from >= 0 && atRisk < MinAtRisk:
			until = age
		}
	}
	if from < 0 {
		return Curve{}, false
	}
	// Estimate the curve from the items between them.
	inside := make(Cohort, 0, len(byExit))
	for _, it := range byExit {
		if it.Exit > until {
			it.Exit, it.Fate = until, Censored
		}
		if it.Exit > from {
			inside = append(inside, it)
		}
	}
	drawn = estimator(inside)
	drawn.From, drawn.Until = from, until
	drawn.Points = slices.Insert(drawn.Points, 0, Point{Age: from, Survival: 1, AtRisk: first})
	return drawn, true
}

// rounding is the largest error in products of shares, so that half of the items give exactly 0.5.
const rounding = 1e-12

// FirstBelow returns the first age at which survival is less than p. ok is false when it never is.
func (c Curve) FirstBelow(p float64) (age pool.Micros, ok bool) {
	for _, q := range c.Points {
		if q.Survival < p-rounding {
			return q.Age, true
		}
	}
	return 0, false
}

// AtMost returns the first age at which survival is at most p. ok is false when it never is.
func (c Curve) AtMost(p float64) (age pool.Micros, ok bool) { return c.FirstBelow(p + 2*rounding) }

// HoursBelow returns the first age in hours at which survival is less than p; NaN if it never is.
func (c Curve) HoursBelow(p float64) float64 {
	if age, ok := c.FirstBelow(p); ok {
		return pool.Hours(age)
	}
	return math.NaN()
}

// HoursTo returns the first age in hours at which survival is at most p; NaN if it never is.
func (c Curve) HoursTo(p float64) float64 { return c.HoursBelow(p + 2*rounding) }

// At returns the curve's value at an age.
func (c Curve) At(age pool.Micros) Point {
	later := sort.Search(len(c.Points), func(i int) bool { return c.Points[i].Age > age })
	if later == 0 {
		return Point{Survival: 1}
	}
	return c.Points[later-1]
}

// Area is the area under the curve from age 0 to an age, in hours. The curve is flat after the last point.
func (c Curve) Area(until pool.Micros) float64 {
	area, s, last := 0.0, 1.0, pool.Micros(0)
	for _, q := range c.Points {
		if q.Age > until {
			break
		}
		area += s * pool.Hours(q.Age-last)
		s, last = q.Survival, q.Age
	}
	return area + s*pool.Hours(until-last)
}

// AtRisk is the number of items at risk at an age.
func AtRisk(items []Item, age pool.Micros) (n int) {
	for _, it := range items {
		if it.Entry < age && age <= it.Exit {
			n++
		}
	}
	return n
}

// Cohort holds items. One that was never at risk changes nothing.
type Cohort []Item

// sorted returns the items that are at risk at some age, by exit, and their sorted entries.
func (c Cohort) sorted() (byExit Cohort, entries []pool.Micros) {
	byExit = slices.DeleteFunc(slices.Clone(c), func(it Item) bool { return it.Entry >= it.Exit })
	slices.SortFunc(byExit, func(a, b Item) int { return cmp.Compare(a.Exit, b.Exit) })
	entries = make([]pool.Micros, len(byExit))
	for i, it := range byExit {
		entries[i] = it.Entry
	}
	slices.Sort(entries)
	return byExit, entries
}

// estimate walks the ages with an end. With d events and c competing ends among n at risk, the share that has had
// neither falls by 1 − (d+c)/n and the share with the event grows by the former times d/n. Its variance is the delta
// method's (Marubini and Valsecchi 1995, section 10.2), which without competing ends is Greenwood's.
func (c Cohort) estimate(competing bool) Curve {
	byExit, entries := c.sorted()
	curve := Curve{Points: make([]Point, 0, len(byExit))}
	if len(byExit) > 0 {
		curve.Until = byExit[len(byExit)-1].Exit
	}
	entered := 0
	free, product := 1.0, 1.0 // the share with neither; survival when nothing competes
	incidence := 0.0          // the share with the event
	var v variance
	var other bool
	for i := 0; i < len(byExit); {
		age, events, all := byExit[i].Exit, 0, 0
		for entered < len(entries) && entries[entered] < age {
			entered++
		}
		// Count the ends at this age.
		atRisk := entered - i
		for ; i < len(byExit) && byExit[i].Exit == age; i++ {
			switch fate := byExit[i].Fate; {
			case fate == Event:
				events++
				all++
			case fate == Competing && competing:
				all++
			}
		}
		if all == 0 {
			continue
		}
		other = other || events < all
		// The curve falls by their share of those at risk.
		n, d := float64(atRisk), float64(events)
		before := free
		incidence += free * d / n
		free *= 1 - float64(all)/n
		product *= 1 - d/n
		v.add(incidence, before, n, d, float64(all))
		if events == 0 {
			continue
		}
		s := product
		if other {
			s = 1 - incidence
		}
		curve.Points = append(curve.Points, Point{age, s, v.of(incidence), atRisk})
	}
	return curve
}

// variance gathers the sums over ages that the variance of a cumulative incidence F(t) needs:
// Σ (F(t)−F)² a + b − 2 (F(t)−F) e, with a, b, e of each age up to t.
type variance struct{ a, fa, ffa, b, e, fe float64 }

func (v *variance) add(f, before, n, events, all float64) {
	if n > all { // otherwise none remain, and F(t) = F from here on
		a := all / (n * (n - all))
		v.a += a
		v.fa += f * a
		v.ffa += f * f * a
	}
	v.b += before * before * (n - events) * events / (n * n * n)
	e := before * events / (n * n)
	v.e += e
	v.fe += f * e
}

func (v *variance) of(f float64) float64 {
	return f*f*v.a - 2*f*v.fa + v.ffa + v.b - 2*(f*v.e-v.fe)
}

var z = distuv.UnitNormal.Quantile(0.975)

// Interval is the 95 % interval of Survival on the scale log(−log s); NaN if Survival is 0.
func (p Point) Interval() (low, high float64) {
	s := p.Survival
	switch {
	case s >= 1:
		return 1, 1
	case s <= 0:
		return math.NaN(), math.NaN()
	}
	log := math.Log(s)
	w := math.Exp(z * math.Sqrt(max(0, p.Variance)) / (s * -log))
	return math.Exp(log * w), math.Exp(log / w)
}

// Garwood returns the 95 % interval of the mean of a Poisson count of which n were observed.
func Garwood(n int) (low, high float64) {
	if n > 0 {
		low = distuv.ChiSquared{K: 2 * float64(n)}.Quantile(0.025) / 2
	}
	return low, distuv.ChiSquared{K: 2*float64(n) + 2}.Quantile(0.975) / 2
}
