package evictions

import (
	"context"
	"fmt"
	"slices"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
)

// Hours has the sums over backfill runs in consecutive hours. Sums over hours and groups give the figures of longer
// windows; a window has the runs that began in its hours, and those that were carried into its first one.
type Hours struct {
	Runs      map[linked.HourOf]*Hourly
	Evictions map[Ended]*Eviction
	Links     []Links  // by hour
	Notices   []string // what the job source says about omitted ads
}

// Hourly has the figures of a group's backfill runs in an hour (methodology section 8): GPU-hours, runs by where they
// began, and runs that ended in the hour by outcome, except evictions.
type Hourly struct {
	GPUHours      float64 `json:"backfillHours,omitempty"`
	Begun         int     `json:"backfillBegun,omitempty"`
	Carried       int     `json:"backfillCarried,omitempty"` // runs that started before the hour
	UnseenBegun   int     `json:"unseenBegun,omitempty"`
	UnseenCarried int     `json:"unseenCarried,omitempty"`
	Yielded       int     `json:"yielded,omitempty"`
	Completed     int     `json:"completed,omitempty"`
	Removed       int     `json:"removed,omitempty"`
	Held          int     `json:"onHold,omitempty"`
	Lost          int     `json:"outOfSight,omitempty"`
	Ambiguous     int     `json:"ambiguous,omitempty"`
}

// Ended says which evictions are added up: those of runs that were evicted in one hour, began in another, and whose
// jobs had last saved their work in a third: in that in which the run began if they never did.
type Ended struct {
	linked.HourOf
	Saved, Began    pool.Micros // hours of the last save and of the run's beginning, by their beginnings
	Cause, Evidence string
}

// Eviction is the number of evicted runs, of those whose jobs had saved in them, and of the GPUs that they held, and
// their GPU-hours since Ended.Saved (lost) and since Ended.Began (evicted): those in that first hour, unless it is the
// hour of the eviction (First), those in the hour of the eviction (Last), and all. In each hour between, they held all
// the GPUs.
type Eviction struct {
	Evictions    int     `json:"evictions"`
	Saved        int     `json:"evictedSaved,omitempty"`
	GPUs         int     `json:"evictedGpus"`
	First        float64 `json:"lostFirst,omitempty"`
	Last         float64 `json:"lostLast,omitempty"`
	Lost         float64 `json:"lost,omitempty"`
	EvictedFirst float64 `json:"evictedFirst,omitempty"`
	EvictedLast  float64 `json:"evictedLast,omitempty"`
	Evicted      float64 `json:"evicted,omitempty"`
}

// Links are the counts of a link rate: how many backfill runs of an hour have a job ad, of those that should.
type Links struct {
	LinkedBegun    int `json:"linkedBegun,omitempty"`
	LinkedCarried  int `json:"linkedCarried,omitempty"`
	CountedBegun   int `json:"countedBegun,omitempty"`
	CountedCarried int `json:"countedCarried,omitempty"`
	WithoutAds     int `json:"withoutAds,omitempty"` // 1: no job ads are used
}

// ByHour returns the sums over backfill runs in the hours between consecutive times. Errors come from Answer, and
// pool.SourceError if the job source does not answer, because figures without it differ.
func ByHour(ctx context.Context, s *stores.Stores, env query.Env, hours []pool.Micros, now pool.Micros) (*Hours,
	error) {
	p, err := query.Catalog{Kind}.Plan(query.Request{Model: query.Model{QueryType: Kind.Name, View: "timeseries",
		Bucket: "1h"}, Window: pool.Window{From: hours[0], To: hours[len(hours)-1]}, Now: now}, env)
	if err != nil {
		return nil, err
	}
	o, err := linked.OpenExplained(ctx, s, p, "figures differ")
	if err != nil {
		return nil, err
	}
	if o.History.Failure != nil {
		return nil, fmt.Errorf("reading job ads: %w", o.History.Failure)
	}
	h := &hourly{Hours{Runs: map[linked.HourOf]*Hourly{}, Evictions: map[Ended]*Eviction{},
		Links: make([]Links, len(hours)-1), Notices: o.History.Notices}, query.Buckets{Starts: hours}, o}
	for r := range linked.RunsIn(o.Observed, o.History.Explanations, p.Window) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if r.Side == pool.Backfill {
			h.add(&r)
		}
	}
	if !o.History.Sharp {
		h.Links = slices.Repeat([]Links{{WithoutAds: 1}}, len(hours)-1)
	}
	return &h.Hours, nil
}

type hourly struct {
	Hours
	hours query.Buckets
	*linked.Opening
}

func (h *hourly) add(r *linked.Run) {
	group := r.Key().Within(append(linked.HourlyBy, query.ByUser))
	starts, counted := h.hours.Starts, r.Outcome != runs.Running && linked.Due(r.End, h.Plan.Now)
	unseen := r.Link == runs.AdOnly
	for b := h.hours.Of(max(r.Start, starts[0])); b < h.hours.Len() && starts[b] <= r.Until; b++ {
		of, begun := pool.In(h.Runs, linked.HourOf{Key: group, Hour: b}), r.Start >= starts[b]
		of.GPUHours += r.GPUHours(max(0, min(r.Until, starts[b+1])-max(r.Start, starts[b])))
		count(begun, &of.Begun, &of.Carried)
		switch l := &h.Links[b]; {
		case unseen:
			count(begun, &of.UnseenBegun, &of.UnseenCarried)
		case counted && r.Link.Linked():
			count(begun, &l.LinkedBegun, &l.LinkedCarried)
			fallthrough
		case counted:
			count(begun, &l.CountedBegun, &l.CountedCarried)
		}
	}
	if r.Outcome == runs.Running || r.End < starts[0] || r.End >= starts[h.hours.Len()] {
		return
	}
	at := linked.HourOf{Key: group, Hour: h.hours.Of(r.End)}
	of := pool.In(h.Runs, at)
	if r.Outcome == runs.Evicted {
		h.evicted(at, r)
		return
	}
	*[runs.Outcomes]*int{runs.Yielded: &of.Yielded, runs.Completed: &of.Completed, runs.Removed: &of.Removed,
		runs.Held: &of.Held, runs.Lost: &of.Lost, runs.Ambiguous: &of.Ambiguous}[r.Outcome]++
}

func (h *hourly) evicted(at linked.HourOf, r *linked.Run) {
	floor := func(t pool.Micros) pool.Micros { return h.Plan.Bucket.Floor(t, h.Plan.Location) }
	k := Ended{at, floor(r.LastSave()), floor(r.Start), r.Cause.String(), r.Evidence.String()}
	of := pool.In(h.Evictions, k)
	of.Evictions++
	if r.Saved() {
		of.Saved++
	}
	of.GPUs += len(r.GPUs)
	add := func(first, last, all *float64, since, hour pool.Micros) {
		begin := h.hours.Starts[at.Hour]
		*all += r.GPUHours(r.End - since)
		*last += r.GPUHours(r.End - max(since, begin))
		if since < begin {
			*first += r.GPUHours(h.Plan.Bucket.Next(hour, h.Plan.Location) - since)
		}
	}
	add(&of.First, &of.Last, &of.Lost, r.LastSave(), k.Saved)
	add(&of.EvictedFirst, &of.EvictedLast, &of.Evicted, r.Start, k.Began)
}

// count counts a run that began in an hour, or was carried into it.
func count(begun bool, began, carried *int) {
	if begun {
		*began++
	} else {
		*carried++
	}
}
