package jobs

import (
	"bytes"
	"context"
	"encoding/gob"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/segcache"
)

// A source's answers about finished days are also kept on disk, next to the segments, so that the first query after a
// restart requests nothing that a query before would not have requested, and shared through a bucket, with all
// processes that use the same source: one blob per day and kind of question. An entry records when it was requested,
// so that it is due again at the same time as without the restart, and for all processes. A process adds its entries
// to those of other processes, with conditional requests that fail if another process was faster.

// adsVersion is the version of the blobs' format, and of how ParseAd reads an ad. Blobs of another version are ignored.
const adsVersion = 5

// daysAtOnce limits how many days are requested from a bucket together.
const daysAtOnce = 16

// eachDay calls do for the positions of each day that is known, for a few days at a time.
func (s *cached) eachDay(ctx context.Context, q *lookup, positions []int,
	do func(ctx context.Context, blob segcache.Blob, positions []int)) {
	byDay := map[int32][]int{}
	for _, i := range positions {
		if !q.ends[i].IsZero() {
			day := int32(q.ends[i].Unix() / secondsOfDay)
			byDay[day] = append(byDay[day], i)
		}
	}
	group, inner := parallel.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	if s.shared.Through != nil {
		group.SetLimit(daysAtOnce)
	}
	for day, positions := range byDay {
		group.Go(func() error {
			if inner.Err() != nil {
				return inner.Err()
			}
			do(inner, segcache.Blob{Kind: q.kind.name, Version: adsVersion, Date: day}, positions)
			return inner.Err()
		})
	}
	_ = group.Wait() // entries that are not read are requested, and unwritten ones after a restart
}

// endOf is the end of a blob's day.
func endOf(b segcache.Blob) time.Time { return MachineDay{Day: b.Date}.End() }

// restore fills in missing positions from the disk, and then from the bucket. It returns those that must be requested,
// and notices about the objects that are not used.
func (s *cached) restore(ctx context.Context, q *lookup, missing []int) (left []int, notices []string) {
	if s.disk == nil && s.shared.Through == nil {
		return missing, nil
	}
	var mu sync.Mutex
	said, revision := map[string]bool{}, s.revision()
	s.eachDay(ctx, q, missing, func(ctx context.Context, blob segcache.Blob, positions []int) {
		take := func(entries map[string]entry) {
			for _, i := range positions {
				if e, ok := entries[q.keys[i]]; ok && e.Asked.After(q.found[i].Asked) {
					q.found[i] = s.cache.replace(q.cacheKey(i), q.found[i], e)
				}
			}
		}
		if slices.ContainsFunc(positions, func(i int) bool { return q.found[i].Asked.IsZero() }) { // in no memory
			take(s.onDisk(blob, revision))
		}
		positions = s.expired(q, positions)
		if now := s.cache.now(); len(positions) == 0 || now.Sub(endOf(blob)) <= arriveIn || !s.mayHaveChanged(blob, now) {
			return
		}
		entries, _, err := s.inBucket(ctx, blob, revision)
		if err != nil && ctx.Err() == nil {
			mu.Lock()
			defer mu.Unlock()
			said["job ads cached by other servers are not used: "+err.Error()] = true
		}
		take(entries)
	})
	return s.expired(q, missing), slices.Sorted(maps.Keys(said))
}

// mayHaveChanged reports whether there is a bucket, and it is time to look for a blob there again.
func (s *cached) mayHaveChanged(b segcache.Blob, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared.Through == nil || now.Sub(s.looked[b]) < askFresh {
		return false
	}
	s.looked[b] = now
	return true
}

// store adds complete answers about finished days, the only ones that are kept, to those on disk and in the bucket. An
// invalid object is left unchanged.
func (s *cached) store(ctx context.Context, q *lookup, answered []int, revision string) {
	s.eachDay(ctx, q, answered, func(ctx context.Context, blob segcache.Blob, positions []int) {
		positions = slices.DeleteFunc(positions, func(i int) bool {
			return q.found[i].Partial || q.found[i].Asked.Sub(endOf(blob)) <= arriveIn
		})
		if len(positions) == 0 {
			return
		}
		extend := func(entries map[string]entry) []byte {
			for _, i := range positions {
				if q.found[i].Asked.After(entries[q.keys[i]].Asked) {
					entries[q.keys[i]] = *q.found[i]
				}
			}
			return encode(entries)
		}
		if s.disk != nil {
			s.disk.Write(blob, s.contents(revision), extend(s.onDisk(blob, revision)))
		}
		const patience = 3
		for try := 0; s.shared.Through != nil && try < patience; try++ {
			entries, etag, err := s.inBucket(ctx, blob, revision)
			if err != nil {
				return
			}
			won, err := s.shared.Through.Write(ctx, blob, s.identity(revision), etag, extend(entries))
			if won || err != nil {
				return
			}
		}
	})
}

// onDisk returns the entries of a blob on disk by key, none if there are none of the contents.
func (s *cached) onDisk(b segcache.Blob, revision string) map[string]entry {
	entries := map[string]entry{}
	if s.disk == nil {
		return entries
	}
	var of string
	if body, ok := s.disk.Read(b, &of); ok && of == s.contents(revision) {
		_ = s.decode(body, entries) // damaged entries are requested
	}
	return entries
}

// inBucket returns the entries of a blob in the bucket by key, and the object's ETag.
func (s *cached) inBucket(ctx context.Context, b segcache.Blob, revision string) (entries map[string]entry, etag string,
	err error) {
	entries = map[string]entry{}
	etag, err = s.shared.Through.Read(ctx, b, s.identity(revision), func(unpack func() ([]byte, error)) error {
		body, err := unpack()
		if err != nil {
			return err
		}
		return s.decode(body, entries)
	})
	return entries, etag, err
}

// identity identifies the source and a revision of its contents as other processes do.
func (s *cached) identity(revision string) string { return s.shared.Source + " " + revision }

// encode writes entries, by key.
func encode(entries map[string]entry) []byte {
	var written bytes.Buffer
	_ = gob.NewEncoder(&written).Encode(entries) // fails for types that gob does not support, which a test would show
	return written.Bytes()
}

// decode reads the output of encode. It omits entries from the future, because a clock is or was ahead; if the bytes
// are damaged, all of them.
func (s *cached) decode(written []byte, entries map[string]entry) error {
	if err := gob.NewDecoder(bytes.NewReader(written)).Decode(&entries); err != nil {
		clear(entries)
		return segcache.ErrDamaged
	}
	now := s.cache.now()
	maps.DeleteFunc(entries, func(_ string, e entry) bool { return e.Asked.After(now) })
	said := map[string][]string{}
	for key, e := range entries { // most have the notices of one lookup: they share them
		if of := strings.Join(e.Notices, "\n"); of != "" {
			if said[of] == nil {
				said[of] = e.Notices
			}
			e.Notices = said[of]
			entries[key] = e
		}
	}
	return nil
}
