// Package linked begins answers about runs linked with job ads, for the kinds backfillAvailability, evictions,
// utilization and demand (methodology sections 8 and 9).
package linked

import (
	"context"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Opening is the common beginning of an answer about runs.
type Opening struct {
	Observed *runs.Observed
	Slices   *timeline.Slices
	About    *frames.About
}

// Open observes the runs around the plan's window. Errors: pool.SourceError when no snapshot can be read, ctx's.
func Open(ctx context.Context, s *stores.Stores, p *query.Plan) (*Opening, error) {
	near, err := s.Timeline.Load(ctx, p.Window.From, p.Window.To)
	if err != nil {
		return nil, err
	}
	observed, err := s.Runs.Look(ctx, p.Window, p.Env.Lists)
	if err != nil {
		return nil, err
	}
	slices, err := near.Slices(ctx, p.Env.Zone, p.Env.SliceMinutes, p.Window)
	if err != nil {
		return nil, err
	}
	about := frames.NewAbout(p, near, slices.Coverage(p.Env.Lists))
	about.Unmatched(near, runs.DaysOf(near, p.Window))
	return &Opening{observed, slices, about}, nil
}

// Filter is the query's filter as runs know it.
func Filter(s *query.Selection) runs.Filter {
	return runs.Filter{
		Machine: s.Machines.Match, Device: s.MatchDevice, Project: s.MatchProjects,
		User:      s.MatchUser,
		Ownership: func(o pool.Ownership) bool { return s.Ownerships[o] },
		Memory:    func(class uint8) bool { return s.Memories[class] },
	}
}

// BackfillFilter is the query's filter for GPUs in the backfill pool: categories come from their ownership.
func BackfillFilter(s *query.Selection) runs.Filter {
	f := Filter(s)
	f.Ownership = func(o pool.Ownership) bool { return s.Ownerships[o] && s.Categories[pool.BackfillCategory(o)] }
	return f
}
