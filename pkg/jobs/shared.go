package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
	"unique"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/segcache"
)

// A source's answers about finished days are also shared through a bucket, with all processes that use the same source:
// one object per day and kind of question, in the format of the disk. An entry records when it was requested, so that
// it is due again at the same time for all processes. A process adds its entries to those of other processes, with
// conditional requests that fail if another process was faster.

// Sharing lets processes that use the same source share its answers.
type Sharing struct {
	Through *segcache.Shared
	// Source identifies the source and who queries it, identically in every process. Anyone who may read the bucket can
	// see it.
	Source string
}

// sharing is a Sharing with the objects that were read.
type sharing struct {
	Sharing
	mu     sync.Mutex
	looked map[segcache.Blob]time.Time // when an object was last read and lacked the missing entries
}

// daysAtOnce limits how many days are requested together.
const daysAtOnce = 16

// adopt fills in the missing positions with entries that other processes requested later than this one. Notices name
// the objects that are not used.
func (s *cached) adopt(ctx context.Context, missing []int, found []entry, q lookup) (notices []string) {
	if s.shared == nil || len(missing) == 0 {
		return nil
	}
	name, id, said, now := unique.Make(s.name()), s.id(), map[string]bool{}, s.cache.now()
	byDay := q.byDay(missing, func(_ int, ended time.Time) bool { return now.Sub(ended) > arriveIn })
	var mu sync.Mutex
	s.eachDay(ctx, byDay, func(ctx context.Context, day int32, positions []int) {
		if !s.shared.mayHaveChanged(q.kind.blob(day), s.cache.now()) {
			return
		}
		theirs, _, err := s.theirs(ctx, id, q.kind.blob(day))
		mu.Lock()
		defer mu.Unlock()
		if err != nil && ctx.Err() == nil {
			said["job ads cached by other servers are not used: "+err.Error()] = true
		}
		for _, i := range positions {
			e, ok := theirs[q.key(i)]
			if ok && e.asked.After(found[i].asked) {
				s.cache.replace(cacheKey{name, q.key(i)}, &found[i], *e)
			}
		}
	})
	return slices.Sorted(maps.Keys(said))
}

// eachDay calls do for a few days at a time.
func (s *cached) eachDay(ctx context.Context, byDay map[int32][]int, do func(context.Context, int32, []int)) {
	group, inner := parallel.WithContext(ctx)
	group.SetLimit(daysAtOnce)
	for day, positions := range byDay {
		group.Go(func() error {
			do(inner, day, positions)
			return inner.Err()
		})
	}
	_ = group.Wait() // entries that are not shared are requested
}

// mayHaveChanged reports whether it is time to look for a blob again.
func (s *sharing) mayHaveChanged(b segcache.Blob, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.looked[b]) < askFresh {
		return false
	}
	s.looked[b] = now
	return true
}

// theirs returns the entries of an object by key, nil if there is none, and its ETag.
func (s *cached) theirs(ctx context.Context, id sourceID, b segcache.Blob) (
	entries map[string]*entry, etag string, err error) {
	body, etag, err := s.shared.Through.Read(ctx, b, s.sharedIdentity(id))
	if body == nil || err != nil {
		return nil, "", err
	}
	entries, err = s.entriesOf(body)
	return entries, etag, err
}

// sharedIdentity identifies the source as other processes do.
func (s *cached) sharedIdentity(id sourceID) string {
	return fmt.Sprintf("%s %s", s.shared.Source, id.Revision)
}

// upload adds finished answers by day to the entries of other processes. An invalid object is left unchanged.
func (s *cached) upload(ctx context.Context, id sourceID, byDay map[int32][]int, found []entry, q lookup) {
	if s.shared == nil {
		return
	}
	s.eachDay(ctx, byDay, func(ctx context.Context, day int32, positions []int) {
		const patience = 3
		for range patience {
			all, etag, err := s.theirs(ctx, id, q.kind.blob(day))
			if err != nil {
				return
			}
			if all == nil {
				all = map[string]*entry{}
			}
			for _, i := range positions {
				if e := all[q.key(i)]; e == nil || found[i].asked.After(e.asked) {
					all[q.key(i)] = &found[i]
				}
			}
			won, err := s.shared.Through.Write(ctx, q.kind.blob(day), s.sharedIdentity(id), etag, encode(all))
			if won || err != nil {
				return
			}
		}
	})
}
