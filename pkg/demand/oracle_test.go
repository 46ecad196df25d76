package demand

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/pressure"
	"github.com/chtc/gpureports/pkg/timeline"
)

// The oracle takes methodology section 14 sentence by sentence, in minutes, with plain loops over all rows, polls and
// runs.

// sight is a row as the oracle knows it; times are minutes.
type sight struct{ job, first, last, queued int }

// held is a run of a job.
type held struct {
	start, end int
	whole      bool
}

type naive struct {
	rows  []sight
	polls []int
}

func newNaive(rows []sight) *naive {
	n := &naive{rows: rows}
	for _, r := range rows {
		for _, t := range []int{r.first, r.last} {
			if !slices.Contains(n.polls, t) {
				n.polls = append(n.polls, t)
			}
		}
	}
	sort.Ints(n.polls)
	return n
}

const minutesOfDay = 24 * 60

func (n *naive) cadence(t int) float64 {
	var distances []int
	for i := 1; i < len(n.polls); i++ {
		if n.polls[i]/minutesOfDay == t/minutesOfDay && n.polls[i-1]/minutesOfDay == t/minutesOfDay {
			distances = append(distances, n.polls[i]-n.polls[i-1])
		}
	}
	if len(distances) < 8 {
		return 30
	}
	sort.Ints(distances)
	k := len(distances)
	return float64(distances[(k-1)/2]+distances[k/2]) / 2
}

// known reports whether the time between the i-th poll and the next one is covered.
func (n *naive) known(i int) bool {
	if float64(n.polls[i+1]-n.polls[i]) <= 3*n.cadence(n.polls[i]) {
		return true
	}
	for _, r := range n.rows {
		if r.first <= n.polls[i] && r.last >= n.polls[i+1] {
			return true
		}
	}
	return false
}

// covered reports whether the minute that begins at t is covered.
func (n *naive) covered(t int) bool {
	for i := 0; i+1 < len(n.polls); i++ {
		if n.polls[i] <= t && t < n.polls[i+1] {
			return n.known(i)
		}
	}
	return false
}

// wait is an answer of the oracle.
type wait struct {
	begin, end, first, last, counted, attempts int
	outcome                                    string
	ran                                        int
}

func (n *naive) waits(job int, runs []held) (all []wait) {
	type piece struct {
		first, last, queued int
		run                 *held
	}
	var pieces []piece
	for _, r := range n.rows {
		if r.job != job {
			continue
		}
		rest := piece{r.first, r.last, r.queued, nil}
		for i := range runs {
			if run := &runs[i]; run.start > rest.first && run.end < r.last {
				before, after := rest.first, -1
				for _, p := range n.polls {
					if p <= run.start {
						before = p
					}
					if after < 0 && p >= run.end {
						after = p
					}
				}
				pieces = append(pieces, piece{rest.first, before, r.queued, run})
				rest.first = after
			}
		}
		pieces = append(pieces, rest)
	}
	ranBetween := func(last, first int) bool {
		for _, r := range runs {
			if r.start < first && r.end > last {
				return true
			}
		}
		return false
	}
	for i := 0; i+1 < len(pieces); {
		a, b := pieces[i], pieces[i+1]
		if a.run == nil && float64(b.first-a.last) <= 3*n.cadence(a.last) && !ranBetween(a.last, b.first) {
			pieces[i] = piece{a.first, b.last, a.queued, b.run}
			pieces = slices.Delete(pieces, i+1, i+2)
			continue
		}
		i++
	}
	for i, p := range pieces {
		w := wait{first: p.first, last: p.last}
		var ended int
		for _, r := range runs {
			if r.start < p.first {
				w.attempts++
				ended = max(ended, r.end)
			}
		}
		previous := math.MinInt
		for _, t := range n.polls {
			if t < p.first {
				previous = t
			}
		}
		switch {
		case i > 0 && all[i-1].outcome == "unknown" && !ranBetween(all[i-1].last, p.first):
			w.begin, w.counted = all[i-1].begin, p.first
		case i == 0 && w.attempts == 0:
			w.begin, w.counted = p.queued, p.queued
		case w.attempts > 0 && ended > previous && ended <= p.first:
			w.begin, w.counted = ended, ended
		default:
			w.begin, w.counted = p.first, p.first
		}
		n.endWait(&w, p.run, runs)
		all = append(all, w)
	}
	return all
}

func (n *naive) endWait(w *wait, run *held, runs []held) {
	c := n.cadence(w.last)
	for i := len(runs) - 1; i >= 0 && run == nil; i-- {
		first := true // of the runs in the interval
		for k := range i {
			first = first && !(runs[k].start > w.first && float64(runs[k].start) > float64(w.last)-c &&
				float64(runs[k].start) <= float64(w.last)+3*c)
		}
		if first && runs[i].start > w.first && float64(runs[i].start) > float64(w.last)-c &&
			float64(runs[i].start) <= float64(w.last)+3*c {
			run = &runs[i]
		}
	}
	at := slices.Index(n.polls, w.last)
	switch {
	case run != nil:
		w.outcome, w.end = "started", run.start
		if run.whole {
			w.ran = run.end - run.start
		}
	case at == len(n.polls)-1:
		w.outcome, w.end = "waiting", w.last
	case !n.known(at):
		w.outcome, w.end = "unknown", w.last
	default:
		w.outcome, w.end = "left", w.last
	}
}

// case drawn at random: polls at irregular distances with gaps, jobs that idle and run.
type drawn struct {
	rows []sight
	runs map[int][]held
}

const base = 1_800_000 // minutes since 1970, of a UTC midnight

func draw(t *rapid.T) (d drawn) {
	d.runs = map[int][]held{}
	regular := rapid.SampledFrom([]int{5, 30, 47}).Draw(t, "cadence")
	now := base + rapid.IntRange(0, minutesOfDay).Draw(t, "begin")
	var polls []int
	for range rapid.IntRange(2, 40).Draw(t, "polls") {
		polls = append(polls, now)
		now += regular * rapid.SampledFrom([]int{1, 1, 1, 1, 1, 1, 2, 3, 4, 9}).Draw(t, "distance")
	}
	for job := range rapid.IntRange(1, 4).Draw(t, "jobs") {
		at := 0
		queued := polls[0] - rapid.IntRange(0, 100).Draw(t, "queued")
		for at < len(polls) && rapid.IntRange(0, 5).Draw(t, "again") > 0 {
			first := at + rapid.IntRange(0, 3).Draw(t, "pause")
			last := first + rapid.IntRange(0, 8).Draw(t, "idle")
			if last >= len(polls) {
				break
			}
			d.rows = append(d.rows, sight{job, polls[first], polls[last], min(queued, polls[first])})
			at = last + 1
		}
		t0 := polls[0] - 50
		for range rapid.IntRange(0, 4).Draw(t, "runs") {
			start := t0 + rapid.IntRange(1, 8*regular).Draw(t, "start")
			end := start + rapid.IntRange(0, 6*regular).Draw(t, "ran")
			d.runs[job] = append(d.runs[job], held{start, end, rapid.Bool().Draw(t, "whole")})
			t0 = end
		}
	}
	return d
}

// view is what the product reads of drawn rows.
func (d *drawn) view() (*pressure.View, *timeline.Names) {
	names := timeline.NewNames()
	days := map[int32]*pressure.Day{}
	for _, r := range d.rows {
		row := pressure.Row{Job: names.Job(jobText(r.job)), First: uint32(r.first * 60), Last: uint32(r.last * 60),
			QDate: uint32(r.queued * 60), Request: uint32(r.job)}
		date := pool.DayOf(micros(row.First))
		if days[date] == nil {
			days[date] = &pressure.Day{Date: date}
		}
		days[date].Rows = append(days[date].Rows, row)
	}
	v := &pressure.View{Names: names}
	for date := int32(0); len(days) > 0; date++ {
		day := days[date]
		if day == nil {
			continue
		}
		delete(days, date)
		for _, r := range day.Rows {
			day.Times = append(day.Times, r.First, r.Last)
			day.Last = max(day.Last, r.Last)
		}
		v.Days = append(v.Days, day)
	}
	v.Requests = []pressure.Request{{GPUs: 1}, {GPUs: 2, GPUMemory: 40000}, {GPUs: 1, GPUMemory: 80000}, {GPUs: 3}}
	return v, names
}

func jobText(job int) string { return fmt.Sprintf("ap1#%d.0#1", 100+job) }

func (d *drawn) known(names *timeline.Names) map[timeline.Job][]Run {
	known := map[timeline.Job][]Run{}
	for job, runs := range d.runs {
		for _, r := range runs {
			known[names.Job(jobText(job))] = append(known[names.Job(jobText(job))],
				Run{Start: pool.Micros(r.start) * pool.Minute, End: pool.Micros(r.end) * pool.Minute, Whole: r.whole})
		}
	}
	return known
}

func minutes(t pool.Micros) int { return int(t / pool.Minute) }

func TestWaitsAreThoseOfTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		v, names := d.view()
		known := d.known(names)
		p := NewPolls(v.Days)
		n := newNaive(d.rows)
		require.Len(t, p.Times, len(n.polls))
		for i, poll := range n.polls {
			require.Equal(t, poll, minutes(p.Times[i]))
			require.InDelta(t, n.cadence(poll)*60e6, p.Cadence(p.Times[i]), 0.5)
			if i+1 < len(n.polls) {
				require.Equal(t, !n.known(i), p.gapAfter(p.Times[i]), "gap after %d", poll)
			}
		}
		for job := range 4 {
			var rows []*pressure.Row
			for _, day := range v.Days {
				for i := range day.Rows {
					if day.Rows[i].Request == uint32(job) {
						rows = append(rows, &day.Rows[i])
					}
				}
			}
			if rows == nil {
				continue
			}
			var got []wait
			for _, w := range waitsOf(p, rows, known[rows[0].Job], v.Requests, false) {
				got = append(got, wait{minutes(w.Begin), minutes(w.End), minutes(w.First), minutes(w.Last), minutes(w.Counted),
					w.Attempts,
					[]string{"waiting", "started", "left", "unknown"}[w.Outcome], minutes(w.Ran)})
			}
			require.Equal(t, n.waits(job, d.runs[job]), got, "%v %v", d.rows, d.runs[job])
		}
	})
}

// Averages over covered time, minute by minute.
func TestAveragesAreThoseOfTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		v, names := d.view()
		known := d.known(names)
		p := NewPolls(v.Days)
		n := newNaive(d.rows)
		from := base + rapid.IntRange(-100, 600).Draw(t, "from")
		to := from + rapid.IntRange(1, 3000).Draw(t, "length")
		w := pool.Window{From: pool.Micros(from) * pool.Minute, To: pool.Micros(to) * pool.Minute}
		var waits []*Wait
		for _, rows := range rowsByJob(v, since(p, w)) {
			for _, one := range waitsOf(p, rows, known[rows[0].Job], v.Requests, false) {
				if one.overlaps(w) {
					one.Owner = timeline.Symbol(one.Request.GPUs) // jobs 0 and 2 are of one user
					waits = append(waits, &one)
				}
			}
		}
		starts := []pool.Micros{w.From}
		for starts[len(starts)-1] < w.To {
			starts = append(starts, starts[len(starts)-1]+pool.Micros(rapid.IntRange(1, 1500).Draw(t, "bucket"))*pool.Minute)
		}
		c := newClock(starts, w, p.coveredUntil)
		jobs, gpus, users := newLevel(c), newLevel(c), newLevel(c)
		for _, one := range waits {
			jobs.add(one.Counted, one.End, 1)
			gpus.add(one.Counted, one.End, one.Request.GPUs)
		}
		addUsers(&users, waits)
		for b := range c.covered {
			var covered, wantJobs, wantGPUs, wantUsers float64
			for m := max(from, minutes(starts[b])); m < min(to, minutes(starts[b+1])); m++ {
				if !n.covered(m) {
					continue
				}
				covered++
				owners := map[timeline.Symbol]bool{}
				for job := range 4 {
					for _, one := range n.waits(job, d.runs[job]) {
						if one.counted <= m && m < one.end && one.begin <= to && one.end >= from {
							wantJobs++
							wantGPUs += v.Requests[job].GPUs
							owners[timeline.Symbol(v.Requests[job].GPUs)] = true
						}
					}
				}
				wantUsers += float64(len(owners))
			}
			require.InDelta(t, covered*60e6, c.covered[b], 1)
			require.InDelta(t, wantJobs*60e6, jobs.totals()[b], 1)
			require.InDelta(t, wantGPUs*60e6, gpus.totals()[b], 1)
			require.InDelta(t, wantUsers*60e6, users.totals()[b], 1)
			require.Equal(t, covered == 0, math.IsNaN(jobs.means()[b]))
		}
	})
}

// Waiting jobs take free GPUs one by one, and each looks at every GPU.
func TestTakingIsThatOfTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := timeline.NewNames()
		sizes := []float64{unknownMemory, 0, 20000, 40000, 80000}
		f := &Free{Sizes: sizes}
		free := make([]int32, len(sizes))
		var gpus []float64
		for i, size := range sizes {
			free[i] = int32(rapid.IntRange(0, 4).Draw(t, "free"))
			for range free[i] {
				gpus = append(gpus, size)
			}
		}
		var waits []Wait
		for i := range rapid.IntRange(0, 12).Draw(t, "jobs") {
			waits = append(waits, Wait{Job: names.Job(fmt.Sprintf("ap#%d.%d#1", rapid.IntRange(1, 200).Draw(t, "cluster"), i)),
				First: 1, Last: 1, Request: pressure.Request{
					GPUs:      rapid.SampledFrom([]float64{1, 1, 2, 3, 8}).Draw(t, "gpus"),
					GPUMemory: rapid.SampledFrom([]float64{0, 0, 1, 20000, 40001, 80000, 90000}).Draw(t, "memory"),
				}})
		}
		queues, places := queuesOf(waits, names)
		for i := range waits {
			queues[places[i].queue].set(places[i].place, true)
		}
		var taken Taken
		taken.take(f, slices.Clone(free), queues)
		got := map[string]int{}
		for i, w := range taken.Waits {
			got[names.JobText(waits[w].Job)] = int(taken.GPUs[i])
		}

		order := slices.Clone(waits)
		sort.SliceStable(order, func(i, k int) bool {
			a, b := order[i].Request, order[k].Request
			if a.GPUMemory != b.GPUMemory {
				return a.GPUMemory > b.GPUMemory
			}
			if a.GPUs != b.GPUs {
				return a.GPUs > b.GPUs
			}
			return strings.Compare(names.JobText(order[i].Job), names.JobText(order[k].Job)) < 0
		})
		want := map[string]int{}
		for _, w := range order {
			var fitting []int
			for i, size := range gpus {
				if w.Request.GPUMemory == 0 || size >= w.Request.GPUMemory {
					fitting = append(fitting, i)
				}
			}
			if n := int(w.Request.GPUs); len(fitting) >= n {
				for i := n - 1; i >= 0; i-- {
					gpus = slices.Delete(gpus, fitting[i], fitting[i]+1)
				}
				want[names.JobText(w.Job)] = n
			}
		}
		require.Equal(t, want, got)
	})
}
