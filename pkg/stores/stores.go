// Package stores holds the open stores of a data source and its caches in memory: queries are answered from them.
package stores

import (
	"context"
	"errors"
	"io"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/memory"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Stores belong to one data source. They are safe for concurrent use.
type Stores struct {
	Timeline *timeline.Timeline
	Runs     *runs.Observer
	Memo     Memo
	Queues   *queues.Store // nil: none
	Ads      jobs.Source   // nil: none
}

// Budget is the memory of a data source in bytes, per cache.
type Budget struct {
	Days         uint64 // segments of the timeline
	Names        uint64 // their texts, and those of idle jobs
	Observations uint64 // runs seen in snapshots
	Ads          uint64 // job ads
	Queues       uint64 // idle jobs
	Answers      uint64 // answers of the last second
	Figures      uint64 // figures of days, runs and waits
}

// Divide divides the setting cacheMaxMB. Figures have room for the waits of 38,000 jobs at a time.
func Divide(bytes uint64) Budget {
	part := bytes / parts
	return Budget{Days: 9 * part, Names: part, Observations: observations * part, Queues: 3 * part, Ads: 3 * part,
		Answers: part, Figures: 5 * part}
}

// The parts of the setting, and those for observations.
const parts, observations = 32, 10

// Lack returns the smallest cacheMaxMB, in MB, with which the observed runs fit; 0 if they did.
func (s *Stores) Lack() int { return s.Runs.MissingBytes() * parts / observations >> 20 }

// New returns stores over a timeline. They close it and the sources that are added, for which Budget has shares, too.
func New(tl *timeline.Timeline, b Budget) *Stores {
	return &Stores{Timeline: tl, Runs: runs.NewObserver(tl, b.Observations),
		Memo: memory.New(b.Figures, func(_ any, f Figures) int { return f.Bytes() })}
}

// Close closes all stores, and frees the caches.
func (s *Stores) Close() error {
	err := s.Timeline.Close()
	s.Runs.Close()
	s.Memo.InvalidateAll()
	if s.Queues != nil {
		err = errors.Join(err, s.Queues.Close())
	}
	if closer, ok := s.Ads.(io.Closer); ok {
		err = errors.Join(err, closer.Close())
	}
	return err
}

// projectsKey names the projects of a window's jobs, whose day it is in.
type projectsKey struct{ from, to int32 }

// Projects returns the projects of jobs by the rows of queue files in reach of a window. Errors are ctx's.
func (s *Stores) Projects(ctx context.Context, rows *queues.View, w pool.Window) (*queues.Projects, error) {
	key := projectsKey{pool.DayOf(w.From), pool.DayOf(w.To)}
	if kept, _ := s.Memo.GetIfPresent(key); kept != nil {
		if known := kept.(*queues.Projects); known.In(rows, w) {
			return known, nil
		}
	}
	made, err := rows.ProjectsIn(ctx, w)
	if err == nil {
		s.Memo.Set(key, made)
	}
	return made, err
}

// Memo keeps figures that kinds derive from unchanging parts of the data. Keys are comparable values of a type of the
// kind's own, and name everything that the figures depend on.
type Memo = memory.Cache[any, Figures]

// Figures are the values of a Memo. They are never changed.
type Figures interface {
	Bytes() int // live memory, the key included
}

// Remember returns the figures of a key. If the memo has none, it computes and keeps them. Errors are those of compute.
func Remember[F Figures](memo Memo, key any, compute func() (F, error)) (F, error) {
	if kept, ok := memo.GetIfPresent(key); ok {
		return kept.(F), nil // a key's type is its kind's own
	}
	made, err := compute()
	if err == nil {
		memo.Set(key, made)
	}
	return made, err
}
