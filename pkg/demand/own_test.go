package demand

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/survival"
	"github.com/chtc/gpureports/pkg/timeline"
)

// The line before each wait, and what own GPUs are to it, by looking at all waits and all GPUs for each wait.
func TestOwnGPUsLikeNaive(t *testing.T) {
	met := map[own]int{}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 5))
		names := timeline.NewNames()
		lists := pool.Lists{ProjectNames: map[string][]string{"Lab": {"P", "Q"}, "Empty": {}}}
		projects := []string{"", "P", "Q", "P,Q", "R", "Lab"}
		day := &ownDay{owning: &owning{lists: lists}, members: map[timeline.Symbol][]string{},
			stands: map[timeline.Symbol]map[string]bool{}, matches: map[[2]timeline.Symbol]bool{}}
		for m := range random.IntN(4) {
			priority := []string{"P", "Lab", "R", "Q,R", "Empty"}[random.IntN(5)]
			for range random.IntN(4) {
				memory := []float64{math.NaN(), 40000, 80000}[random.IntN(3)]
				day.gpus = append(day.gpus, ownGPU{names.Symbol(fmt.Sprint("m", m)), names.Symbol(priority), memory,
					own(random.IntN(3))})
			}
		}
		var waits []Wait
		for i := range random.IntN(12) {
			waits = append(waits, Wait{Job: names.Job(fmt.Sprintf("ap#%d.0#1", 1+random.IntN(20))), Attempts: int32(i),
				Project: names.Symbol(projects[random.IntN(len(projects))]), Begin: pool.Micros(random.IntN(4)),
				Request: queues.Request{GPUs: []float64{1, 1, 1.5, 3}[random.IntN(4)],
					GPUMemory: []float64{0, 1, 40000, 60000}[random.IntN(4)]}})
		}
		day.names = names.Texts()
		const snapshot = 0 // waits that begin then are not after it
		l := line{slice: -1}
		order := (&owning{waits: waits, slices: &timeline.Slices{View: &timeline.View{Names: names}}}).inLine()
		for _, i := range order {
			w := &waits[i]
			ahead := l.before(w, 7, w.Begin > snapshot)
			before := 0.0
			for k := range waits {
				o := &waits[k]
				earlier := o.Begin < w.Begin || o.Begin == w.Begin && names.JobText(o.Job) < names.JobText(w.Job)
				if k != int(i) && o.Project == w.Project && o.Begin > snapshot && earlier {
					before += math.Ceil(o.Request.GPUs)
				}
			}
			require.Equal(t, before, ahead, "seed %d", seed)

			stands := map[string][]string{"Lab": {"P", "Q"}, "Empty": nil, "P": {"P"}, "R": {"R"}, "Q": {"Q"}}
			all, free, open := map[timeline.Symbol]int{}, map[timeline.Symbol]int{}, map[timeline.Symbol]int{}
			var sumFree, sumOpen float64
			for _, g := range day.gpus {
				gives := false
				for _, name := range strings.Split(day.names[g.priority], ",") {
					for _, member := range strings.Split(day.names[w.Project], ",") {
						gives = gives || slices.Contains(stands[name], member)
					}
				}
				if !gives || w.Request.GPUMemory > 0 && !(g.memory >= w.Request.GPUMemory) {
					continue
				}
				all[g.machine]++
				if g.state == ownFree {
					free[g.machine]++
					sumFree++
				}
				if g.state != ownBusy {
					open[g.machine]++
					sumOpen++
				}
			}
			n := math.Ceil(w.Request.GPUs)
			have := func(on map[timeline.Symbol]int) bool {
				for _, gpus := range on {
					if float64(gpus) >= n {
						return true
					}
				}
				return false
			}
			want := ownBusy
			switch {
			case !have(all):
				want = ownNone
			case have(free) && sumFree >= before+n:
				want = ownFree
			case have(open) && sumOpen >= before+n:
				want = ownBackfill
			}
			got := day.sum(ownKey{w.Project, w.Request.GPUMemory}).own(n, ahead)
			require.Equal(t, want, got, "seed %d", seed)
			met[got]++
		}
	}
	for _, o := range []own{ownFree, ownBackfill, ownBusy, ownNone} {
		require.Greater(t, met[o], 10)
	}
}

// life is a wait as the naive estimates take it: it is known from an age on, to another one, and may start then.
type life struct {
	entry, exit float64
	event       bool
}

// share is the Kaplan–Meier estimate of those that start at an age of at most x, by looking at all lives at each age.
func share(all []life, x float64) float64 {
	var ages []float64
	for _, l := range all {
		if l.event && l.exit <= x && l.entry < l.exit {
			ages = append(ages, l.exit)
		}
	}
	slices.Sort(ages)
	left := 1.0
	for _, age := range slices.Compact(ages) {
		var risk, events float64
		for _, l := range all {
			if l.entry < age && age <= l.exit {
				risk++
				if l.event && l.exit == age {
					events++
				}
			}
		}
		left *= 1 - events/risk
	}
	return 1 - left
}

func drawLives(random *rand.Rand, n, most int) (all []life) {
	for range n {
		entry := random.IntN(most)
		if random.IntN(2) == 0 {
			entry = 0
		}
		all = append(all, life{float64(entry), float64(1 + random.IntN(most)), random.IntN(3) > 0})
	}
	return all
}

func TestWithinLikeNaive(t *testing.T) {
	known, unknown := 0, 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 2))
		all := drawLives(random, random.IntN(30), 40)
		var c survival.Cohort
		for _, l := range all {
			it := survival.Item{Entry: pool.Micros(l.entry), Exit: pool.Micros(l.exit)}
			if l.event {
				it.Fate = survival.Event
			}
			if it.Entry < it.Exit {
				c = append(c, it)
			}
		}
		x := float64(1 + random.IntN(45))
		early, longest := 0, 0.0
		for _, l := range all {
			if l.entry < l.exit {
				if longest = max(longest, l.exit); l.entry <= x/2 {
					early++
				}
			}
		}
		curve := c.KaplanMeier()
		got, low, high := within(c, &curve, pool.Micros(x))
		want := share(all, x)
		if early < 5 || want < 1-1e-12 && longest < x {
			require.True(t, math.IsNaN(got) && math.IsNaN(low) && math.IsNaN(high), "seed %d", seed)
			unknown++
			continue
		}
		known++
		require.InDelta(t, 100*want, got, 1e-9, "seed %d", seed)
		if want > 0 && want < 1-1e-12 {
			require.Less(t, low, got)
			require.Greater(t, high, got)
		}
	}
	require.Greater(t, known, 100)
	require.Greater(t, unknown, 50)
}

// p90Held against a definition that goes through all waits for each day.
func TestP90HeldLikeNaive(t *testing.T) {
	known := 0
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 3))
		from := (20_000*24 + pool.Micros(random.IntN(48))) * pool.Hour
		w := pool.Window{From: from, To: from + pool.Micros(random.IntN(72))*pool.Hour}
		var all []*Wait
		for range random.IntN(200) {
			begin := w.From - 8*pool.Day + pool.Micros(random.IntN(11*24*4))*15*pool.Minute
			end := begin + pool.Micros(random.IntN(80))*15*pool.Minute
			it := &Wait{Begin: begin, End: end, Counted: begin,
				Outcome: []Outcome{Started, Started, Started, Left}[random.IntN(4)]}
			if it.Known = begin; random.IntN(3) == 0 {
				it.Known += pool.Micros(random.IntN(4)) * 15 * pool.Minute
			}
			all = append(all, it)
		}
		lifeIn := func(it *Wait, w pool.Window) (life, bool) {
			if it.Begin > w.To || it.End < w.From {
				return life{}, false
			}
			return life{float64(max(it.Known, w.From) - it.Begin), float64(min(it.End, w.To) - it.Begin),
				it.Outcome == Started && it.End >= w.From && it.End <= w.To}, true
		}
		var held []life
		for d := pool.Micros(19_990); d < 20_010; d++ {
			if !w.Contains(d * pool.Day) {
				continue
			}
			var past []life
			for _, it := range all {
				if l, there := lifeIn(it, pool.Window{From: (d - 7) * pool.Day, To: d * pool.Day}); there {
					past = append(past, l)
				}
			}
			usual := math.Inf(1)
			for _, l := range past {
				if l.event && l.entry < l.exit && 1-share(past, l.exit) <= 0.1+1e-12 {
					usual = min(usual, l.exit)
				}
			}
			if math.IsInf(usual, 1) {
				continue
			}
			for _, it := range all {
				if it.Begin >= d*pool.Day && it.Begin < (d+1)*pool.Day && w.Contains(it.Begin) {
					if l, there := lifeIn(it, w); there && l.entry < l.exit {
						held = append(held, life{l.entry / usual, l.exit / usual, l.event})
					}
				}
			}
		}
		want, longest := share(held, 1), 0.0
		for _, l := range held {
			longest = max(longest, l.exit)
		}
		got := p90Held(all, w)
		if len(held) < 20 || want < 1-1e-12 && longest < 1 {
			require.True(t, math.IsNaN(got), "seed %d: %v of %d", seed, got, len(held))
			continue
		}
		known++
		require.InDelta(t, 100*want, got, 1e-9, "seed %d", seed)
	}
	require.Greater(t, known, 20)
}
