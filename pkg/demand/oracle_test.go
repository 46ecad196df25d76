package demand

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/internal/dev/naive"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/timeline"
)

// sight is a row of a queue file; times are minutes.
type sight struct {
	job, first, last, queued int
	running                  bool
}

// held is a run of a job.
type held struct {
	start, end, seen int // seen: 0 = by no snapshot
	estimated, whole bool
}

func at(minutes int) int64 { return int64(minutes) * 60e6 }

// oracle is the drawn case as pkg/internal/dev/naive takes it.
func (d *drawn) oracle() *naive.Queues {
	var rows []naive.Row
	for _, r := range d.rows {
		rows = append(rows, naive.Row{Job: jobText(r.job), First: at(r.first), Last: at(r.last), Queued: at(r.queued),
			Running: r.running})
	}
	return naive.New(rows)
}

// waits are those of a job by the oracle.
func (d *drawn) waits(n *naive.Queues, job int) []naive.Wait {
	var runs []naive.Run
	for _, r := range d.runs[job] {
		runs = append(runs, naive.Run{Start: at(r.start), End: at(r.end), Seen: at(r.seen), Estimated: r.estimated,
			Whole: r.whole})
	}
	return n.Waits(jobText(job), runs)
}

// case drawn at random: polls at irregular distances with gaps, jobs that idle and run.
type drawn struct {
	rows []sight
	runs map[int][]held
}

const (
	minutesOfDay = 24 * 60
	base         = 1_800_000 // minutes since 1970, of a UTC midnight
)

func draw(t *rapid.T) (d drawn) {
	d.runs = map[int][]held{}
	regular := rapid.SampledFrom([]int{6, 30, 48}).Draw(t, "cadence")
	now := base + 2*rapid.IntRange(0, minutesOfDay/2).Draw(t, "begin")
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
			d.rows = append(d.rows, sight{job, polls[first], polls[last], min(queued, polls[first]),
				rapid.IntRange(0, 3).Draw(t, "runs") == 0})
			at = last + 1
		}
		t0 := polls[0] - 50
		for range rapid.IntRange(0, 4).Draw(t, "runs") {
			start := t0 + rapid.SampledFrom([]int{0, 1, 2, 5, regular, 3 * regular, 8 * regular}).Draw(t, "start")
			end := start + rapid.IntRange(0, 6*regular).Draw(t, "ran")
			r := held{start: start, end: end, estimated: rapid.Bool().Draw(t, "estimated"), whole: rapid.Bool().Draw(t, "whole")}
			if r.estimated || rapid.Bool().Draw(t, "seen") {
				r.seen = min(start+rapid.SampledFrom([]int{0, 1, 5, regular}).Draw(t, "first seen"), max(start, end))
			}
			d.runs[job] = append(d.runs[job], r)
			t0 = rapid.SampledFrom([]int{start, end, end, end}).Draw(t, "next")
		}
	}
	return d
}

// view is what the product reads of drawn rows.
func (d *drawn) view() (*queues.View, *timeline.Names) {
	names := timeline.NewNames()
	days := map[int32]*queues.Day{}
	for _, r := range d.rows {
		row := queues.Row{Job: names.Job(jobText(r.job)), First: uint32(r.first * 60), Last: uint32(r.last * 60),
			QDate: uint32(r.queued * 60), Request: uint32(r.job), Running: r.running}
		date := pool.DayOf(micros(row.First))
		if days[date] == nil {
			days[date] = &queues.Day{Date: date}
		}
		days[date].Rows = append(days[date].Rows, row)
	}
	v := &queues.View{Names: names}
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
	v.Requests = [][]queues.Request{{{GPUs: 1}, {GPUs: 2, GPUMemory: 40000}, {GPUs: 1, GPUMemory: 80000}, {GPUs: 3}}}
	return v, names
}

func jobText(job int) string { return fmt.Sprintf("ap1#%d.0#1", 100+job) }

func (d *drawn) known(names *timeline.Names) map[timeline.Job]*jobRuns {
	known := map[timeline.Job]*jobRuns{}
	for job, runs := range d.runs {
		of := &jobRuns{}
		known[names.Job(jobText(job))] = of
		for _, r := range runs {
			of.runs = append(of.runs,
				Run{Start: pool.Micros(r.start) * pool.Minute, End: pool.Micros(r.end) * pool.Minute,
					Seen: pool.Micros(r.seen) * pool.Minute, Estimated: r.estimated, Whole: r.whole})
		}
		sortRuns(of.runs)
	}
	return known
}

func TestWaitsAreThoseOfTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		v, names := d.view()
		known := d.known(names)
		p := NewPolls(v.Days)
		n := d.oracle()
		require.Equal(t, n.Polls, p.Times)
		for i, poll := range n.Polls {
			require.InDelta(t, n.Cadence(poll), p.Cadence(poll), 0.5)
			if i+1 < len(n.Polls) {
				require.Equal(t, !n.Known(i), p.gapAfter(poll), "gap after %d", poll)
			}
		}
		for _, rows := range rowsByJob(v, 0) {
			job := int(rows.idle[0].Request)
			var got []naive.Wait
			for _, w := range waitsOfAll(p, []sightings{rows}, known, v, false) {
				got = append(got, naive.Wait{Begin: w.Begin, End: w.End, First: w.First, Last: w.Last, Counted: w.Counted,
					Attempts: int(w.Attempts), Outcome: []string{"waiting", "started", "left", "unknown"}[w.Outcome], Ran: w.Ran,
					RanUntil: w.RanUntil, Elsewhere: w.Elsewhere})
			}
			want := d.waits(n, job)
			for i := range want {
				want[i].AtQDate = false
			}
			require.Equal(t, want, got, "%v %v", d.rows, d.runs[job])
		}
	})
}

// A poller extends a running row over polls at which the job was idle: the rows before and behind are one wait, because a
// run that began more than a cadence before the last poll of the first one does not separate them.
func TestRunThatBeganLongBefore(t *testing.T) {
	half := func(n int) int { return base + 30*n }
	for start, waits := range map[int]int{half(2) - 1: 1, half(2): 1, half(2) + 1: 2} {
		d := drawn{rows: []sight{{0, half(2), half(3), half(2), false}, {0, half(4), half(5), half(2), false}},
			runs: map[int][]held{0: {{start: start, end: half(3) + 20, seen: start}}}}
		v, names := d.view()
		p := NewPolls(v.Days)
		require.Len(t, waitsOfAll(p, rowsByJob(v, 0), d.known(names), v, false), waits, "a run from %d", start-half(2))
		require.Len(t, d.waits(d.oracle(), 0), waits)
	}
}
