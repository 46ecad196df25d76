package demand

import (
	"cmp"
	"context"
	"slices"
	"unsafe"
	"weak"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Waits are remembered as long as polls, snapshots and job ads stay the same: the panels of a dashboard share them,
// also if their windows differ a little.

// memoKey names waits by the runs and the UTC days whose rows they were made from.
type memoKey struct {
	history  weak.Pointer[runs.History]
	from, to int32
}

// remembered are waits, and the data that they were made from.
type remembered struct {
	days    []*queues.Day
	waits   []Wait
	withAds bool // job ads were read

	window   pool.Window // the whole days that they are of
	byUser   []int32     // the numbers of the waits, by user, then by when they count from
	listless bool        // some have no list of projects
}

// Bytes is the live memory of the waits; the rows belong to the queues.
func (r *remembered) Bytes() int {
	return len(r.waits)*(int(unsafe.Sizeof(Wait{}))+4) + len(r.days)*8 + 200
}

// sort puts the waits into the order of their lengths, in which tables and curves take them without sorting again.
func (r *remembered) sort() {
	order := make([]int32, len(r.waits))
	for i := range order {
		order[i] = int32(i)
	}
	length := func(i int32) pool.Micros { return r.waits[i].End - r.waits[i].Begin }
	slices.SortFunc(order, func(i, j int32) int { return cmp.Or(cmp.Compare(length(i), length(j)), cmp.Compare(i, j)) })
	sorted := make([]Wait, len(order))
	for n, i := range order {
		sorted[n], order[n] = r.waits[i], int32(n)
	}
	r.waits, r.byUser = sorted, order
	slices.SortFunc(r.byUser, func(i, j int32) int {
		a, b := &sorted[i], &sorted[j]
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Counted, b.Counted))
	})
	r.listless = slices.ContainsFunc(sorted, func(w Wait) bool { return w.NoList })
}

// allWaits makes the waits that the window reach needs, and maybe more, of rows, runs and ads.
func allWaits(ctx context.Context, s *stores.Stores, p *query.Plan, o *runs.Observed, reach pool.Window,
	rows *queues.View, polls *Polls, about *frames.About) (*remembered, error) {
	const meaning = "waits are those that polls and snapshots show, waits between two polls are not seen"
	if o == nil {
		var err error
		if o, err = s.Runs.ObserveWindow(ctx, reach, p.Env.Lists); err != nil {
			return nil, err
		}
	}
	history, err := linked.History(ctx, o, s.Ads, p.Window, meaning, about)
	if err != nil {
		return nil, err
	}
	key := memoKey{weak.Make(history), pool.DayOf(since(polls, reach)), pool.DayOf(reach.To)}
	kept, _ := s.Memo.GetIfPresent(key)
	if known, _ := kept.(*remembered); known != nil && slices.Equal(known.days, rows.Days) {
		return known, nil
	}
	// of whole days, so that they are those of a window that has moved a little
	w := pool.Window{From: min(reach.From, pool.Micros(key.from)*pool.Day),
		To: pool.Micros(key.to+1)*pool.Day - 1}
	source := s.Ads
	if !history.Sharp {
		source = nil
	}
	made, failure, err := makeWaits(ctx, source, o, history, rows, polls, w)
	if err != nil {
		return nil, err
	}
	if made.sort(); failure != nil {
		linked.Unread(meaning, failure, about)
	} else {
		s.Memo.Set(key, made)
	}
	return made, nil
}

// makeWaits makes the waits that a window of whole days needs; if the source fails, the failure and what polls show.
func makeWaits(ctx context.Context, source jobs.Source, o *runs.Observed, history *runs.History, rows *queues.View,
	polls *Polls, w pool.Window) (r *remembered, failure, err error) {
	queued := rowsByJob(rows, w.From)
	var missed func(timeline.Job) bool
	if source != nil {
		missed = missedBy(rows)
	}
	known, all := runsByJob(o, history.Explanations, wantedJobs(o, queued, missed, w), w)
	r = &remembered{days: rows.Days, window: w, waits: waitsOfAll(polls, queued, known, rows, source != nil)}
	if source == nil {
		return r, nil, nil
	}
	ads, failure, err := o.AdsOf(ctx, source, func(m, i int) bool {
		job := o.Machines[m].Runs[i].Job
		return known[job] != nil && missed(job)
	})
	if failure != nil || err != nil {
		return r, failure, err
	}
	for _, of := range all {
		if missed(of.job) && of.number >= 0 && len(ads[of.number]) > 0 {
			of.ads = ads[of.number]
		}
	}
	r.withAds = true
	r.waits = append(r.waits, adOnly(history.Clocks, missed, all, polls, rows)...)
	return r, nil, nil
}

func waitsOfAll(polls *Polls, queued []sightings, known map[timeline.Job]*jobRuns, rows *queues.View,
	withAds bool) []Wait {
	waits := make([]Wait, 0, len(queued))
	for _, list := range queued {
		var own []Run
		if of := known[list.idle[0].Job]; of != nil {
			own = of.runs
		}
		if others := elsewhere(polls, list.running, own); len(others) > 0 {
			own = append(others, own...)
			sortRuns(own)
		}
		waits = append(waits, waitsOf(polls, list.idle, own, rows.Requests, withAds)...)
	}
	return waits
}

// WaitsOf makes the waits of a plan's window and their polls, to compare them with the truth. Errors: as of [Answer].
func WaitsOf(ctx context.Context, s *stores.Stores, p *query.Plan) ([]Wait, *Polls, error) {
	_, a, err := load(ctx, s, p)
	if err != nil || a == nil {
		return nil, &Polls{}, err
	}
	all := a.listed()
	slices.SortStableFunc(all, func(x, y Wait) int { return cmp.Compare(x.Begin, y.Begin) })
	return all, a.polls, nil
}
