// Package demand answers who is waiting for GPUs, for how long and for what, and which GPUs were free in the meantime:
// queries of kind demand (methodology section 14).
package demand

import (
	"context"
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/frames"
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
		a.choose(func(i int) bool { return a.all[i].overlaps(p.Window) && a.matches(i) })
	}
	if s.Ads != nil {
		a.countAdOnly()
	}
	return views[p.View](a, ctx)
}

// Covered is the part of a window that polls of the queues cover.
func Covered(ctx context.Context, s *stores.Stores, w pool.Window) (pool.Micros, error) {
	rows, err := s.Queues.Load(ctx, w)
	if err != nil {
		return 0, err
	}
	polls := NewPolls(rows.Days)
	return polls.coveredUntil(w.To) - polls.coveredUntil(w.From), nil
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

// loadReach makes the waits of a window that are needed for a plan, with its runs if they are observed; nil if there are
// no files of the queues.
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
	a := &answer{plan: p, filter: aggregate.NewFilter(p, texts), about: about, polls: polls, names: rows.Names, texts: texts,
		all: waits.waits, waits: waits, memo: s.Memo, timeline: s.Timeline, roomless: map[timeline.Symbol]bool{},
		projects: &queues.Projects{}}
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

// describePolls reports the coverage of the polls and the polled access points.
func describePolls(polls *Polls, rows *queues.View, w pool.Window, about *frames.About) {
	var points []string
	for s := range polledPoints(rows) {
		points = append(points, rows.Names.Text(s))
	}
	slices.Sort(points)
	about.Count("Access points that are polled", len(points), "access points that are polled: %s",
		strings.Join(points, ", "))
	about.Stat("Polls", "short", float64(max(0, polls.upTo(w.To)-polls.from(w.From)+1)))
	about.Stat("Covered hours of polls", "h", pool.Hours(polls.coveredUntil(w.To)-polls.coveredUntil(w.From)))
	if n := polls.Gaps(w); n > 0 {
		about.Count("Gaps between polls", n, "%s between polls, about which nothing is known", frames.Count(n, "gap"))
	}
}

// polledPoints returns the access points that have a row.
func polledPoints(rows *queues.View) map[timeline.Symbol]bool {
	points := map[timeline.Symbol]bool{}
	for _, d := range rows.Days {
		for i := range d.Rows {
			points[d.Rows[i].Schedd] = true
		}
	}
	return points
}
