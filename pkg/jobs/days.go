package jobs

import (
	"bytes"
	"context"
	"encoding/gob"
	"maps"
	"slices"
	"unique"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/segcache"
)

// A source's answers about finished days are also kept on disk, next to the segments, so that the first query after a
// restart requests nothing that a query before would not have requested: one blob per day and kind of question. An
// entry records when it was requested, so that it is due again at the same time as without the restart.

// adsVersion is the version of the blobs' format, and of how ParseAd reads an ad. Blobs of another version are ignored.
const adsVersion = 7

// eachDay calls do for the positions of each day that is known, for a few days at a time.
func (s *cached) eachDay(ctx context.Context, q *lookup, positions []int,
	do func(blob segcache.Blob, positions []int)) {
	byDay := map[int32][]int{}
	for _, i := range positions {
		if !q.ends[i].IsZero() {
			day := int32(q.ends[i].Unix() / secondsOfDay)
			byDay[day] = append(byDay[day], i)
		}
	}
	days := slices.Collect(maps.Keys(byDay))
	// Entries that are not read are requested, and unwritten ones after a restart.
	_ = parallel.Each(ctx, len(days), func(i int) {
		do(segcache.Blob{Kind: q.kind.name, Version: adsVersion, Date: days[i]}, byDay[days[i]])
	})
}

// restore fills in missing positions from the disk. It returns those that must be requested.
func (s *cached) restore(ctx context.Context, q *lookup, missing []int) (left []int) {
	if s.disk == nil {
		return missing
	}
	contents := s.contents()
	s.eachDay(ctx, q, missing, func(blob segcache.Blob, positions []int) {
		if !slices.ContainsFunc(positions, func(i int) bool { return q.found[i].Asked.IsZero() }) { // all are in memory
			return
		}
		entries := s.onDisk(blob, contents)
		for _, i := range positions {
			if e, ok := entries[q.keys[i]]; ok && e.Asked.After(q.found[i].Asked) {
				q.found[i] = s.cache.replace(q.cacheKey(i), q.found[i], e)
			}
		}
	})
	return s.expired(q, missing)
}

// store adds complete answers about finished days, the only ones that are kept, to those on disk.
func (s *cached) store(ctx context.Context, q *lookup, answered []int, contents string) {
	if s.disk == nil {
		return
	}
	s.eachDay(ctx, q, answered, func(blob segcache.Blob, positions []int) {
		positions = slices.DeleteFunc(positions, func(i int) bool {
			return q.found[i].Partial || q.found[i].Asked.Sub(MachineDay{Day: blob.Date}.End()) <= arriveIn
		})
		if len(positions) == 0 {
			return
		}
		entries := s.onDisk(blob, contents)
		for _, i := range positions {
			if q.found[i].Asked.After(entries[q.keys[i]].Asked) {
				entries[q.keys[i]] = *q.found[i]
			}
		}
		s.disk.Write(blob, contents, encode(entries))
	})
}

// onDisk returns the entries of a blob on disk by key, none if there are none of the contents.
func (s *cached) onDisk(b segcache.Blob, contents string) map[string]entry {
	var of string
	if body, ok := s.disk.Read(b, &of); ok && of == contents {
		return s.decode(body)
	}
	return map[string]entry{}
}

// encode writes entries, by key.
func encode(entries map[string]entry) []byte {
	var written bytes.Buffer
	_ = gob.NewEncoder(&written).Encode(entries) // fails for types that gob does not support, which a test would show
	return written.Bytes()
}

// decode reads the output of encode. It omits entries from the future, because a clock is or was ahead; if the bytes
// are damaged, all of them: they are requested.
func (s *cached) decode(written []byte) map[string]entry {
	entries := map[string]entry{}
	if gob.NewDecoder(bytes.NewReader(written)).Decode(&entries) != nil {
		return map[string]entry{}
	}
	now := s.cache.now()
	maps.DeleteFunc(entries, func(_ string, e entry) bool { return e.Asked.After(now) })
	for _, e := range entries { // most have the notices of one lookup: they share them
		for i, notice := range e.Notices {
			e.Notices[i] = unique.Make(notice).Value()
		}
	}
	return entries
}
