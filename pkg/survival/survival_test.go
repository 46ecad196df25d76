package survival

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/pool"
)

// aml is the acute myelogenous leukaemia data of Miller (1997), as in R's survival package: weeks, 1 = relapse.
// Here a week is an hour.
var amlMaintained = hours([]float64{9, 13, 13, 18, 23, 28, 31, 34, 45, 48, 161}, []int{1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 0})
var amlNot = hours([]float64{5, 5, 8, 8, 12, 16, 23, 27, 30, 33, 43, 45}, []int{1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1})

func hours(exit []float64, status []int) Cohort {
	items := make(Cohort, len(exit))
	for i := range exit {
		items[i] = Item{Exit: pool.Micros(exit[i] * float64(pool.Hour)), Fate: Fate(status[i])}
	}
	return items
}

// The figures that R prints: survfit(Surv(time, status) ~ x, aml, conf.type = "log-log").
func TestLeukaemia(t *testing.T) {
	c := amlMaintained.KaplanMeier()
	want := [][5]float64{ // time, n.risk, survival, lower, upper
		{9, 11, 0.909, 0.5081, 0.987}, {13, 10, 0.818, 0.4474, 0.951}, {18, 8, 0.716, 0.3502, 0.899},
		{23, 7, 0.614, 0.2658, 0.835},
		{31, 5, 0.491, 0.1673, 0.753}, {34, 4, 0.368, 0.0928, 0.657}, {48, 2, 0.184, 0.0117, 0.525}}
	require.Len(t, c.Points, len(want))
	for i, w := range want {
		p := c.Points[i]
		require.Equal(t, w[0], pool.Hours(p.Age))
		require.Equal(t, int(w[1]), p.AtRisk)
		low, high := p.Interval()
		require.InDelta(t, w[2], p.Survival, 5e-4)
		require.InDelta(t, w[3], low, 5e-5)
		require.InDelta(t, w[4], high, 5e-4)
	}
	median, ok := c.AtMost(0.5)
	require.True(t, ok)
	require.Equal(t, 31.0, pool.Hours(median))
	require.InDelta(t, 52.6, c.Area(c.Until), 0.05)

	c = amlNot.KaplanMeier()
	wantS := []float64{0.8333, 0.6667, 0.5833, 0.4861, 0.3889, 0.2917, 0.1944, 0.0972, 0}
	require.Len(t, c.Points, len(wantS))
	for i, s := range wantS {
		require.InDelta(t, s, c.Points[i].Survival, 5e-5)
	}
	low, _ := c.Points[8].Interval()
	require.True(t, math.IsNaN(low))
	median, _ = c.AtMost(0.5)
	require.Equal(t, 23.0, pool.Hours(median))
	require.InDelta(t, 22.7, c.Area(c.Until), 0.05)
}

// Garwood's interval as tables print it (Garwood 1936; htcondor.md).
func TestGarwood(t *testing.T) {
	for n, want := range map[int][2]float64{0: {0, 3.688879454}, 1: {0.025317808, 5.571643391},
		3: {0.618672121, 8.767273075}, 10: {4.795389, 18.390356}, 100: {81.36399, 121.62679}} {
		low, high := Garwood(n)
		require.InDelta(t, want[0], low, 1e-5)
		require.InDelta(t, want[1], high, 1e-5)
	}
	for n := range 2000 { // the interval's defining property: the count's tails hold 2.5 % each
		low, high := Garwood(n)
		require.InDelta(t, 0.025, poisson(n, high), 1e-9)
		if n > 0 {
			require.InDelta(t, 0.975, poisson(n-1, low), 1e-9)
		}
	}
}

// poisson is P(X ≤ n) for mean m, summed term by term.
func poisson(n int, m float64) float64 {
	sum := 0.0
	for k := range n + 1 {
		lg, _ := math.Lgamma(float64(k + 1))
		sum += math.Exp(float64(k)*math.Log(m) - m - lg)
	}
	return sum
}

func drawItems(t *rapid.T) []Item {
	age := rapid.Int64Range(0, 12)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Item {
		return Item{age.Draw(t, "entry") / 3 * pool.Hour, age.Draw(t, "exit") * pool.Hour,
			Fate(rapid.IntRange(0, 2).Draw(t, "fate"))}
	}), 0, 40).Draw(t, "items")
}

// atRisk and count are the definitions, item by item.
func atRisk(items []Item, x pool.Micros) (n int) {
	for _, it := range items {
		if it.Entry < x && x <= it.Exit {
			n++
		}
	}
	return n
}

func count(items []Item, x pool.Micros, fate Fate) (n int) {
	for _, it := range items {
		if it.Entry < x && x == it.Exit && it.Fate == fate {
			n++
		}
	}
	return n
}

func TestAalenJohansenByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := drawItems(t)
		c := Cohort(items).AalenJohansen()
		s, f, k := 1.0, 0.0, 0
		type term struct{ f, s, n, d, all float64 }
		var terms []term
		for x := pool.Hour; x <= 12*pool.Hour; x += pool.Hour {
			n, d, o := float64(atRisk(items, x)), float64(count(items, x, Event)), float64(count(items, x, Competing))
			if d+o == 0 {
				continue
			}
			f += s * d / n
			terms = append(terms, term{f, s, n, d, d + o})
			s *= 1 - (d+o)/n
			if d == 0 {
				continue
			}
			variance := 0.0
			for _, u := range terms {
				if u.n > u.all {
					variance += (f - u.f) * (f - u.f) * u.all / (u.n * (u.n - u.all))
				}
				variance += u.s*u.s*(u.n-u.d)*u.d/(u.n*u.n*u.n) - 2*(f-u.f)*u.s*u.d/(u.n*u.n)
			}
			p := c.Points[k]
			k++
			require.Equal(t, x, p.Age)
			require.InDelta(t, 1-f, p.Survival, 1e-12)
			if 1-f > 1e-6 && 1-f < 1-1e-6 {
				low, high := p.Interval()
				w := 1.959963984540054 * math.Sqrt(math.Max(0, variance)) / ((1 - f) * math.Log(1-f))
				require.InDelta(t, math.Pow(1-f, math.Exp(-w)), low, 1e-6)
				require.InDelta(t, math.Pow(1-f, math.Exp(w)), high, 1e-6)
			}
		}
		require.Len(t, c.Points, k)
	})
}

func TestQuantiles(t *testing.T) {
	c := hours([]float64{1, 2, 3, 4}, []int{1, 1, 1, 1}).KaplanMeier() // 0.75, 0.5, 0.25, 0
	for p, want := range map[float64]float64{0.9: 1, 0.75: 2, 0.5: 3} {
		age, ok := c.FirstBelow(p)
		require.True(t, ok)
		require.Equal(t, want, pool.Hours(age), "the first age below %g, not at it", p)
	}
	age, _ := c.AtMost(0.5)
	require.Equal(t, 2.0, pool.Hours(age))
	_, ok := hours([]float64{1, 2, 2}, []int{1, 0, 0}).KaplanMeier().AtMost(0.5)
	require.False(t, ok, "not reached")
}

// Everybody is seen to the end: the incidence is a plain share.
func TestAalenJohansenIsShare(t *testing.T) {
	items := hours([]float64{1, 2, 3, 4, 5, 6, 7, 8}, []int{1, 2, 2, 1, 1, 2, 2, 2})
	c := items.AalenJohansen()
	require.InDelta(t, 1-3.0/8, c.Points[len(c.Points)-1].Survival, 1e-12)
	require.Less(t, items.KaplanMeier().Points[2].Survival, 1-3.0/8, "1 − KM overstates the incidence")
}

func TestAalenJohansenWithoutCompetitionIsKaplanMeier(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := drawItems(t)
		for i := range items {
			if items[i].Fate == Competing {
				items[i].Fate = Censored
			}
		}
		require.Equal(t, Cohort(items).KaplanMeier(), Cohort(items).AalenJohansen())
	})
}
