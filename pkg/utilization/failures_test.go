package utilization

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// poissonTail is the probability of n or more by adding up the terms below n.
func poissonTail(n int, mean float64) float64 {
	below, term := 0.0, math.Exp(-mean)
	for i := range n {
		below += term
		term *= mean / float64(i+1)
	}
	return 1 - below
}

func TestAtLeast(t *testing.T) {
	for _, mean := range []float64{0.01, 0.5, 3, 20} {
		for n := range 30 {
			require.InDelta(t, poissonTail(n, mean), atLeast(float64(n), mean), 1e-12)
		}
	}
}

// Rows against a definition that goes through all starts for each start.
func TestFailingRowsLikeNaive(t *testing.T) {
	suspects := 0
	for seed := range uint64(80) {
		random := rand.New(rand.NewPCG(seed, 4))
		names := []string{"", "u4", "u2", "u3", "u1"}
		var starts []begun
		for range random.IntN(150) {
			s := begun{machine: int32(random.IntN(1 + int(seed%4))), gpu: int32(random.IntN(2)),
				user: timeline.Symbol(random.IntN(len(names))), at: int64(random.IntN(1000))}
			if random.IntN(12) == 0 || s.machine == 0 && random.IntN(3) == 0 {
				s.failure = "fault"
			}
			starts = append(starts, s)
		}
		for _, byGPU := range []bool{false, true} {
			for _, row := range failingRows(starts, byGPU, names) {
				var n, k, elsewhere, expected float64
				excess, worst := math.Inf(-1), [2]float64{}
				perUser := map[string][2]float64{} // failures, expected
				for _, s := range starts {
					if s.machine != row.machine || byGPU && s.gpu != row.gpu {
						continue
					}
					n++
					var m, kk, mm, kkk float64
					for _, o := range starts {
						if o.machine == s.machine {
							continue
						}
						mm++
						fails := 0.0
						if o.failure.Failed() {
							fails = 1
						}
						kkk += fails
						if o.user == s.user {
							m++
							kk += fails
						}
					}
					elsewhere = mm
					p := (kkk + 0.5) / (mm + 1)
					q := (kk + 10*p) / (m + 10)
					expected += q
					of := perUser[names[s.user]]
					of[1] += q
					if s.failure.Failed() {
						k++
						of[0]++
					}
					perUser[names[s.user]] = of
				}
				require.Equal(t, []float64{n, k}, []float64{row.starts, row.failures})
				if elsewhere == 0 {
					require.True(t, math.IsNaN(row.expected))
					require.Zero(t, row.suspect)
					continue
				}
				require.InDelta(t, expected, row.expected, 1e-9)
				for _, name := range []string{"", "u1", "u2", "u3", "u4"} {
					if of, there := perUser[name]; there && of[0]-of[1] > excess+1e-9 {
						excess, worst = of[0]-of[1], of
					}
				}
				suspect := k >= 3 && poissonTail(int(k), expected) < 0.001 &&
					poissonTail(int(k-worst[0]), expected-worst[1]) < 0.01
				require.Equal(t, suspect, row.suspect == 1, fmt.Sprint(seed, row.machine))
				if suspect {
					suspects++
				}
			}
		}
	}
	require.Positive(t, suspects)
}

const minute = pool.Minute

// run makes a run of GPUs that starts at 0 and ends at the given minute; sightings are minutes and usages in turn.
func run(gpus int, end float64, sightings ...float64) *Reports {
	r := &Reports{GPUs: gpus, End: pool.Micros(end * float64(minute))}
	for i := 0; i < len(sightings); i += 2 {
		r.Sightings = append(r.Sightings, Sighting{pool.Micros(sightings[i] * float64(minute)), sightings[i+1]})
	}
	return r
}

func gapOf(from, to pool.Micros) timeline.Gap { return timeline.Gap{From: from, To: to} }

func read(r *Reports, gaps ...timeline.Gap) *Trace {
	t := &Trace{}
	t.Read(r, gaps)
	return t
}

func minutes(from, to float64) pool.Window {
	return pool.Window{From: pool.Micros(from * float64(minute)), To: pool.Micros(to * float64(minute))}
}

// Busy time is the difference of U · (t − s), not the average that is reported.
func TestUnaveraged(t *testing.T) {
	trace := read(run(1, 75, 15, 0.8, 30, 0.9, 45, 0.6, 60, 0.45)) // 12, 27, 27, 27 busy minutes
	for _, c := range []struct {
		from, to                   float64
		held, measured, busy, idle float64 // minutes
	}{
		{0, 75, 75, 60, 27, 30},
		{0, 15, 15, 15, 12, 0},
		{15, 30, 15, 15, 15, 0},
		{30, 60, 30, 30, 0, 30},
		{5, 20, 15, 15, 8 + 5, 0}, // in proportion
		{60, 75, 15, 0, 0, 0},     // after the last sighting: held, not measured
		{-10, 0, 0, 0, 0, 0},
		{80, 90, 0, 0, 0, 0},
	} {
		a := trace.Within(minutes(c.from, c.to))
		require.InDeltaSlice(t, []float64{c.held, c.measured, c.busy, c.idle},
			[]float64{60 * a.Held, 60 * a.Measured, 60 * a.Busy, 60 * a.Idle}, 1e-9, "%v", c)
	}
	require.Equal(t, []pool.Window{minutes(30, 60)}, trace.Idle)
}

// What reports say beyond the possible is clamped; only what reports that are 5 min old cannot explain is counted.
func TestClamps(t *testing.T) {
	trace := read(run(1, 75, 15, 1.2, 30, 0.3, 45, 0.9, 60, 0.7)) // 15 (U counts as 1), 9 → 15, 40.5 → 30, 42
	a := trace.Within(minutes(0, 75))
	require.InDelta(t, 31.5, 60*a.Busy, 1e-9)
	require.Equal(t, 2, trace.Clamped, "−6 by more than 0.15 + 1.5 min, 31.5 by more than 0.15 + 4.5 min")
	require.Zero(t, read(run(1, 75, 15, 1, 30, 0.46)).Clamped, "13.8 after 15 min: less than 0.15 + 2.3 min")
	require.Zero(t, read(run(2, 75, 15, 2, 30, 2)).Clamped)
}

// A gap of the collector is not measured, snapshots without a usage do not matter.
func TestGaps(t *testing.T) {
	r := run(1, 150, 15, 0.6, 45, 0.8, 60, 0.85, 120, 0.6, 135, 0.6)
	gap := gapOf(60*minute, 120*minute)
	a := read(r, gap).Within(minutes(0, 150))
	require.InDeltaSlice(t, []float64{150, 75, 60}, []float64{60 * a.Held, 60 * a.Measured, 60 * a.Busy}, 1e-9)

	// An ad can give a start inside a gap: no gap lies between it and the first sighting.
	begun := run(1, 60, 30, 0.5)
	require.InDelta(t, 30, 60*read(begun, gapOf(-30*minute, 20*minute)).Within(minutes(0, 60)).Measured, 1e-9)
	// A gap that lies between an earlier sighting and one without a usage counts.
	require.Zero(t, read(run(1, 60, 50, 0.5), gapOf(10*minute, 40*minute)).Within(minutes(0, 60)).Measured)
}

// Idle windows: 29:30 is long enough, less is not; what a late report leaves open is not held against the run.
func TestIdleWindows(t *testing.T) {
	idle := func(sightings ...float64) []pool.Window { return read(run(1, 200, sightings...)).Idle }
	require.Empty(t, idle(15, 0, 29.4, 0))
	require.Equal(t, []pool.Window{minutes(0, 29.5)}, idle(15, 0, 29.5, 0))
	require.Equal(t, []pool.Window{minutes(0, 30)}, idle(30, 0.011), "0.33 min, but the report can be 5 min old: 0.275")
	require.Empty(t, idle(30, 0.013), "0.39 min, 0.325 without the last 5 min: more than 1 %")
	require.Equal(t, []pool.Window{minutes(0, 60)}, idle(30, 0, 60, 0), "windows that touch are one stretch")
	require.Equal(t, []pool.Window{minutes(0, 90)}, idle(30, 0, 45, 0, 90, 0), "t2 is the first after 30 min")
	require.Equal(t, []pool.Window{minutes(0, 30), minutes(60, 90)}, idle(30, 0, 60, 0.5, 90, 1./3))
	require.Empty(t, read(run(2, 60, 30, 1)).Idle, "one of two GPUs computes")
	require.Empty(t, read(run(1, 100, 80, 0), gapOf(20*minute, 60*minute)).Idle, "nothing is known in a gap")

	// Cut to the run's end, which by an ad can lie before its last sighting.
	require.InDelta(t, 25, 60*read(run(1, 25, 30, 0)).Within(minutes(0, 60)).Idle, 1e-9)
}

func TestIdleSince(t *testing.T) {
	since := func(snapshot float64, r *Reports) (float64, bool) {
		s, idle := read(r).IdleSince(pool.Micros(snapshot * float64(minute)))
		return float64(s) / float64(minute), idle
	}
	dead := []float64{30, 1, 60, 0.5, 90, 30. / 90, 120, 30. / 120, 150, 30. / 150}
	at, idle := since(150, run(1, 200, dead...))
	require.True(t, idle)
	require.InDelta(t, 30, at, 1e-9)
	_, idle = since(150, run(1, 200, dead[:8]...))
	require.False(t, idle, "90 min are less than 2 h")
	_, idle = since(180, run(1, 200, dead...))
	require.True(t, idle, "the last sighting is 30 min old")
	_, idle = since(180.1, run(1, 200, dead...))
	require.False(t, idle)
	_, idle = since(165, run(1, 200, append(slices.Clone(dead), 165, 45./165)...))
	require.False(t, idle, "it computed in the end")
	_, idle = since(0, run(1, 200))
	require.False(t, idle)
}

// Exact reports of any course are un-averaged to that very course.
func TestExactReports(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rates := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 50).Draw(t, "rates")
		r := &Reports{GPUs: 2, End: pool.Micros(len(rates)) * 5 * minute}
		busy := 0.0
		for i, rate := range rates {
			busy += rate * 2 * 5
			r.Sightings = append(r.Sightings, Sighting{pool.Micros(i+1) * 5 * minute, busy / float64(5*(i+1))})
		}
		trace := read(r)
		require.Zero(t, trace.Clamped)
		for i, rate := range rates {
			a := trace.Within(minutes(float64(5*i), float64(5*i+5)))
			require.InDelta(t, rate, a.Busy/a.Measured, 1e-6)
		}
	})
}
