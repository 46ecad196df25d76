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
	"github.com/chtc/gpureports/pkg/timeline/keep"
)

// What a source said about finished days is shared through a bucket as well, with all processes that ask the same
// source: an object a day and kind of question, in the form in which it is kept on disk. An entry says when it was
// asked, and is due again at the same time for all. Whoever asks puts its entries beside those of others, by requests
// that fail if somebody else was faster.

// Sharing is where processes that ask one source share what it said.
type Sharing struct {
	Through *keep.Shared
	// Source identifies the source and who asks it, the same in every process; it is seen by all who may read the bucket.
	Source string
}

// sharing is a Sharing with what was looked at.
type sharing struct {
	Sharing
	mu     sync.Mutex
	looked map[keep.Blob]time.Time // until then nobody had what was missing
}

// daysAtOnce bounds the days that are asked for together.
const daysAtOnce = 16

// adopt fills in what other processes were told of the missing positions since this one asked. replaced is as that of
// fetch. Notices say which objects are not used.
func (s *cached) adopt(ctx context.Context, missing []int, found []entry, q lookup) (replaced int, notices []string) {
	if s.shared == nil || len(missing) == 0 {
		return 0, nil
	}
	name, said, now := unique.Make(s.name()), map[string]bool{}, s.cache.now()
	byDay := q.byDay(missing, func(_ int, ended time.Time) bool { return now.Sub(ended) > arriveIn })
	var mu sync.Mutex
	s.eachDay(ctx, byDay, func(ctx context.Context, day int32, positions []int) {
		if !s.shared.due(q.about.on(day), s.cache.now()) {
			return
		}
		theirs, _, err := s.theirs(ctx, q.about.on(day))
		mu.Lock()
		defer mu.Unlock()
		if err != nil && ctx.Err() == nil {
			said["job ads that other servers asked for are not used: "+err.Error()] = true
		}
		for _, i := range positions {
			e, ok := theirs[q.key(i)]
			if ok && e.asked.After(found[i].asked) {
				replaced += s.cache.replace(cacheKey{name, q.key(i)}, &found[i], *e)
			}
		}
	})
	return replaced, slices.Sorted(maps.Keys(said))
}

// eachDay calls do for some days at a time.
func (s *cached) eachDay(ctx context.Context, byDay map[int32][]int, do func(context.Context, int32, []int)) {
	group, inner := parallel.WithContext(ctx)
	group.SetLimit(daysAtOnce)
	for day, positions := range byDay {
		group.Go(func() error {
			do(inner, day, positions)
			return inner.Err()
		})
	}
	_ = group.Wait() // what is not shared is asked for
}

// due reports whether it is time to look for a blob again.
func (s *sharing) due(b keep.Blob, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.looked[b]) < askFresh {
		return false
	}
	s.looked[b] = now
	return true
}

// theirs returns the entries of an object by key, nil if there is none, and its ETag.
func (s *cached) theirs(ctx context.Context, b keep.Blob) (entries map[string]*entry, etag string, err error) {
	body, etag, err := s.shared.Through.Latest(ctx, b, s.sharedIdentity())
	if body == nil || err != nil {
		return nil, "", err
	}
	entries, err = s.entriesOf(body)
	return entries, etag, err
}

// sharedIdentity names the source as it is now.
func (s *cached) sharedIdentity() string {
	return fmt.Sprintf("%s %s", s.shared.Source, s.said().Revision)
}

// share puts finished answers by day beside what others know of them. An object that is not believed stays as it is.
func (s *cached) share(ctx context.Context, byDay map[int32][]int, found []entry, q lookup) {
	if s.shared == nil {
		return
	}
	s.eachDay(ctx, byDay, func(ctx context.Context, day int32, positions []int) {
		const patience = 3
		for range patience {
			all, etag, err := s.theirs(ctx, q.about.on(day))
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
			won, err := s.shared.Through.Replace(ctx, q.about.on(day), s.sharedIdentity(), etag, encode(all))
			if won || err != nil {
				return
			}
		}
	})
}
