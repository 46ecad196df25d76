package demand

import (
	"context"
	"fmt"
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
// also where their windows differ a little.

// memoKey names waits by the observed snapshots, the UTC days whose rows and runs they were made from, and the source
// of the job ads.
type memoKey struct {
	observed weak.Pointer[runs.Observed]
	from, to int32
	source   jobs.Source // nil: none
}

// remembered are waits, and the data that they were made from.
type remembered struct {
	days  []*queues.Day
	asked *linked.Asked // without the ads themselves
	waits []Wait

	window pool.Window // of whole days, which they are of
}

// Bytes is the live memory of the waits; the rows belong to the queues.
func (r *remembered) Bytes() int {
	return len(r.waits)*int(unsafe.Sizeof(Wait{})) + len(r.days)*8 + 200
}

// allWaits makes the waits that a window needs, and maybe more, of rows, runs and ads.
func allWaits(ctx context.Context, s *stores.Stores, p *query.Plan, rows *queues.View, polls *Polls,
	about *frames.About) (*remembered, error) {
	o, err := s.Runs.Look(ctx, p.Window, p.Env.Lists)
	if err != nil {
		return nil, err
	}
	day := pool.DayOf(since(polls, p.Window))
	key := memoKey{weak.Make(o), day, pool.DayOf(p.Window.To), s.Ads}
	known, _ := s.Memo.Recall(key).(*remembered)
	if known == nil || !slices.Equal(known.days, rows.Days) || !known.asked.Holds() {
		// of whole days, so that they are those of a window that has moved a little
		w := pool.Window{From: min(p.Window.From, pool.Micros(day)*pool.Day),
			To: pool.Micros(key.to+1)*pool.Day - 1}
		if known, err = makeWaits(ctx, s.Ads, o, rows, polls, w); err != nil {
			return nil, err
		}
		if known.asked.Holds() {
			s.Memo.Keep(key, known)
		}
	}
	known.asked.Tell(p.Window, "waits are those that polls and snapshots show, waits between two polls are not seen",
		about)
	return known, nil
}

// makeWaits makes the waits that a window of whole days needs.
func makeWaits(ctx context.Context, source jobs.Source, o *runs.Observed, rows *queues.View, polls *Polls,
	w pool.Window) (*remembered, error) {
	queued := rowsByJob(rows, w.From)
	wanted := wantedJobs(o, queued, rows, w, source != nil)
	choose := func(m, r int) bool { return wanted[o.Machines[m].Runs[r].Job] }
	asked, err := linked.Ask(ctx, o, source, runs.Question{Window: w, Wanted: choose,
		Unseen: pool.Window{From: w.From - runs.Reach, To: w.To + pool.Day}})
	if err != nil {
		return nil, err
	}
	x, err := o.Explain(ctx, asked.Ads, choose)
	if err != nil {
		return nil, fmt.Errorf("explaining runs: %w", err)
	}
	known, order := runsByJob(o, x, asked.Ads)
	r := &remembered{days: rows.Days, asked: asked.WithoutAds(), window: w,
		waits: waitsOfAll(polls, queued, known, rows, asked.Ads != nil)}
	if asked.Ads != nil {
		r.waits = append(r.waits, adOnly(asked.Ads, known, order, polls, rows)...)
	}
	return r, nil
}

// waitsOfAll makes the waits of all jobs.
func waitsOfAll(polls *Polls, queued []sightings, known map[timeline.Job]*jobRuns, rows *queues.View,
	withAds bool) (waits []Wait) {
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
