package evictions

import (
	"context"
	"fmt"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
)

// Hours is what backfill runs did in consecutive hours. Sums over hours and groups are those of longer windows; a
// window has the runs that began in its hours, and those that were carried into its first one.
type Hours struct {
	Runs      map[HourOf]*Hourly
	Evictions map[Ended]*Eviction
	Links     []Links  // of each hour
	Sharp     bool     // job ads are used
	Notices   []string // of the job source: what it left out
}

// HourOf is a group's hour, by its number.
type HourOf struct {
	linked.Group
	Hour int
}

// Hourly is what the runs of a group did in an hour.
type Hourly struct {
	GPUHours                   float64
	Begun, Carried             int                // runs that start in the hour, and those that started before
	UnseenBegun, UnseenCarried int                // the same of unseen ones
	Ended                      [runs.Outcomes]int // runs that end in the hour
}

// Ended says which evictions are added up: those of runs that began in one hour and were evicted in another.
type Ended struct {
	HourOf
	Began           pool.Micros // beginning of the hour
	Cause, Evidence string
}

// Eviction is what evicted runs that began in one hour and ended in another held, so that the part in any full hours is
// known.
type Eviction struct {
	Count int
	GPUs  int     // held in the hours between the two
	First float64 // GPU-hours in the hour of the start, where that is another than the one of the end
	Last  float64 // GPU-hours in the hour of the end
	Lost  float64 // all GPU-hours
}

// Links is what tells a link rate: how many runs have an ad, of those that count.
type Links struct {
	CountedBegun, CountedCarried int
	LinkedBegun, LinkedCarried   int
}

// ByHour returns what backfill runs did in each of consecutive hours, given by their beginnings and the end of the last
// one. Errors are those of Answer, and pool.SourceError where the job source does not answer: figures without it are
// others.
func ByHour(ctx context.Context, s *stores.Stores, env query.Env, hours []pool.Micros, now pool.Micros) (*Hours,
	error) {
	p, err := query.Catalog{Kind}.Plan(query.Request{Model: query.Model{QueryType: Kind.Name, View: "timeseries",
		Bucket: "1h"}, Window: pool.Window{From: hours[0], To: hours[len(hours)-1]}, Now: now}, env)
	if err != nil {
		return nil, err
	}
	opened, err := linked.Open(ctx, s, p)
	if err != nil {
		return nil, err
	}
	o := opened.Observed
	known, err := o.Known(ctx, s.Ads)
	if err != nil {
		return nil, err
	}
	if known.Failure != nil {
		return nil, fmt.Errorf("reading job ads: %w", known.Failure)
	}
	h := &hourly{Hours{Runs: map[HourOf]*Hourly{}, Evictions: map[Ended]*Eviction{},
		Links: make([]Links, len(hours)-1), Sharp: known.Sharp, Notices: known.Notices}, query.Buckets{Starts: hours}, p,
		o.View.Names.Texts()}
	all, err := tableOf(ctx, known)
	if err != nil {
		return nil, fmt.Errorf("listing backfill runs: %w", err)
	}
	looking := all.in(o, p.Window)
	err = looking.each(ctx, nil, func(_ int32, r *Run) error {
		h.add(r, &all.classes.All[r.class])
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &h.Hours, nil
}

// hourly adds runs up by hour.
type hourly struct {
	Hours
	hours query.Buckets
	plan  *query.Plan
	names []string
}

func (h *hourly) add(r *Run, class *linked.Class) {
	group := linked.GroupOf(class.Place.Category(), class.Place, h.names[class.Project], h.names[r.User], h.names)
	starts, counted := h.hours.Starts, r.Outcome != runs.Running && linked.Due(r.End, h.plan.Now)
	unseen := r.Link == runs.AdOnly
	for b := h.hours.Of(max(r.Start, starts[0])); b < h.hours.Len() && starts[b] <= r.Until; b++ {
		of, begun := h.of(HourOf{group, b}), r.Start >= starts[b]
		of.GPUHours += r.gpuHours(max(0, min(r.Until, starts[b+1])-max(r.Start, starts[b])))
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
	at := HourOf{group, h.hours.Of(r.End)}
	if h.of(at).Ended[r.Outcome]++; r.Outcome == runs.Evicted {
		h.evicted(at, r)
	}
}

func (h *hourly) of(k HourOf) *Hourly {
	if h.Runs[k] == nil {
		h.Runs[k] = &Hourly{}
	}
	return h.Runs[k]
}

func (h *hourly) evicted(at HourOf, r *Run) {
	k := Ended{at, h.plan.Bucket.Floor(r.Start, h.plan.Location), r.Cause.String(), r.Evidence.String()}
	of := h.Evictions[k]
	if of == nil {
		of = &Eviction{}
		h.Evictions[k] = of
	}
	begin := h.hours.Starts[at.Hour]
	of.Count++
	of.GPUs += int(r.gpus)
	of.Lost += r.gpuHours(r.End - r.Start)
	of.Last += r.gpuHours(r.End - max(r.Start, begin))
	if r.Start < begin {
		of.First += r.gpuHours(h.plan.Bucket.Next(k.Began, h.plan.Location) - r.Start)
	}
}

// count counts a run that began in an hour, or was carried into it.
func count(begun bool, began, carried *int) {
	if begun {
		*began++
	} else {
		*carried++
	}
}
