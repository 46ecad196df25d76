// Package demand answers who is waiting for GPUs, for how long and for what, and which GPUs were free in the meantime:
// queries of kind demand (methodology section 14).
package demand

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unsafe"
	"weak"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/counts"
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

// Answer answers a query. Without a job source (nil), or if it does not answer, only polls and snapshots count, and
// waits between two polls are not seen. Errors: pool.BadQuery, pool.SourceError if nothing can be read, and ctx's.
func Answer(ctx context.Context, s *stores.Stores, p *query.Plan) (data.Frames, error) {
	o, a, err := load(ctx, s, p)
	if err != nil {
		return nil, err
	}
	if a == nil {
		o.About.Warn("no file job_pressure_YYYY-MM.db or .parquet in the snapshot directory, so it is not known who is " +
			"waiting. Collect it with `gpureports collect --jobs`")
		return o.About.Finish(nil), nil
	}
	a.slices = o.Slices
	if !a.waits.withAds && (asksForOwn(p) || slices.ContainsFunc(p.Metrics, isWithin)) {
		o.About.Info("no job ads are read: waits that are shorter than the distance of the polls are mostly not known, so " +
			"that too few seem to start at once. Set up a job source, or poll every few minutes")
	}
	if !slices.Contains([]string{"obstacles", "unused", "unusedNow"}, p.View) { // these filter after the turns
		a.chosen = a.choose(func(i int) bool { return a.all[i].overlaps(p.Window) && a.matches(i) })
	}
	if s.Ads != nil {
		unpolled := a.choose(func(i int) bool { return a.all[i].AdOnly && a.all[i].overlaps(p.Window) })
		a.about.Stat("Waits that only job ads show", "short", float64(len(unpolled)))
	}
	return views[p.View](a, ctx)
}

// Covered is the part of a window that polls of the queues cover.
func Covered(ctx context.Context, s *stores.Stores, w pool.Window) (pool.Micros, error) {
	rows, err := s.Queues.Load(ctx, w)
	if err != nil {
		return 0, err
	}
	return NewPolls(rows.Days).covered(w), nil
}

// load begins an answer, and makes the waits that it needs; nil if there are no files of the queues.
func load(ctx context.Context, s *stores.Stores, p *query.Plan) (o *linked.Opening, a *answer, err error) {
	if o, err = linked.Open(ctx, s, p); err != nil {
		return nil, nil, err
	}
	reach, observed := p.Window, o.Observed
	if slices.Contains(p.Metrics, p90HeldPercent) {
		reach, observed = usualReach(reach), nil
	}
	a, err = loadReach(ctx, s, p, observed, reach, o.About)
	if err == nil && a != nil && asksForOwn(p) {
		a, err = a.withOwn(ctx, s, reach)
	}
	return o, a, err
}

// loadReach makes the waits of a window that are needed for a plan, with its runs if they are observed; nil if there
// are no files of the queues.
func loadReach(ctx context.Context, s *stores.Stores, p *query.Plan, observed *runs.Observed, reach pool.Window,
	about *frames.About) (*answer, error) {
	rows, err := s.Queues.Load(ctx, reach)
	if err != nil {
		return nil, err
	}
	if about.Notices(rows.Notices); rows.Files == 0 {
		return nil, nil
	}
	polls := NewPolls(rows.Days)
	describePolls(polls, rows, p.Window, about)
	if polls.upTo(p.Window.To) < polls.from(p.Window.From) {
		about.Warn("no poll of the queues in the time range")
	}
	waits, err := allWaits(ctx, s, p, observed, reach, rows, polls, about)
	if err != nil {
		return nil, err
	}
	texts := rows.Names.Texts()
	a := &answer{plan: p, filter: aggregate.NewFilter(p, texts), about: about, polls: polls, names: rows.Names,
		texts: texts, all: waits.waits, waits: waits, memo: s.Memo, timeline: s.Timeline,
		roomless: map[timeline.Symbol]bool{}, projects: &queues.Projects{}}
	if waits.listless {
		if a.projects, err = s.Projects(ctx, rows, p.Window); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// listOf returns the list of projects of a wait. One that only an ad shows, without projects, has the list that all
// jobs of its user have; known is false if there is none.
func (a *answer) listOf(w *Wait) (list timeline.Symbol, known bool) {
	if w.NoList {
		return a.projects.OfUser(a.texts[w.Owner])
	}
	return w.Project, true
}

// listed returns a copy of the waits with their lists of projects.
func (a *answer) listed() []Wait {
	all := slices.Clone(a.all)
	for i := range all {
		list, known := a.listOf(&all[i])
		all[i].Project, all[i].NoList = list, !known
	}
	return all
}

// pollSlices are the slices that contain the polls that a window touches and the poll before it.
func (a *answer) pollSlices(ctx context.Context, w pool.Window) (*timeline.Slices, error) {
	zone, minutes := a.plan.Env.Zone, a.plan.Env.SliceMinutes
	if i := a.polls.upTo(w.From); i >= 0 {
		w.From = min(w.From, a.polls.Times[i])
	}
	if minutes == 0 { // a slice lasts to the next snapshot, at most to the gap limit
		w.From -= pool.Day
	} else {
		w.From = zone.Slice(w.From, minutes)
		w.To = zone.Slice(w.To, minutes) + pool.Micros(minutes)*pool.Minute - 1
	}
	return counts.Slices(ctx, a.timeline, a.plan, w)
}

func describePolls(polls *Polls, rows *queues.View, w pool.Window, about *frames.About) {
	var points []string
	for s := range polledPoints(rows) {
		points = append(points, rows.Names.Text(s))
	}
	slices.Sort(points)
	about.Count("Access points that are polled", len(points), "access points that are polled: %s",
		strings.Join(points, ", "))
	about.Stat("Polls", "short", float64(max(0, polls.upTo(w.To)-polls.from(w.From)+1)))
	about.Stat("Covered hours of polls", "h", pool.Hours(polls.covered(w)))
	if n := polls.Gaps(w); n > 0 {
		about.Count("Gaps between polls", n, "%s between polls, about which nothing is known", frames.Count(n, "gap"))
	}
}

func polledPoints(rows *queues.View) map[timeline.Symbol]bool {
	points := map[timeline.Symbol]bool{}
	for _, d := range rows.Days {
		for i := range d.Rows {
			points[d.Rows[i].Schedd] = true
		}
	}
	return points
}

// Waits are remembered as long as polls, snapshots and job ads stay the same: the panels of a dashboard share them,
// also if their windows differ a little.

// memoKey names waits by the runs and the UTC days whose rows they were made from.
type memoKey struct {
	history  weak.Pointer[runs.History]
	from, to int32
}

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
