package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// A collector puts each snapshot as an object of its own, and merges those of a day that is over into its day. The day
// is written by one conditional PUT, and only then are the snapshots removed; until they are, readers leave out those
// whose time the day has. So a crash at any point loses nothing and doubles nothing: the next merge continues.

// snapshotKey is the object of the snapshot of a time, which gpu_state has as a local timestamp, YYYY-MM-DD
// HH:MM:SS.ffffff. Keys are in the order of time: if an hour occurs twice, local timestamps are not.
func snapshotKey(at time.Time, timestamp string) string {
	return newPrefix + timestamp[:len("2026-07-01")] + "/" +
		at.UTC().Format("20060102T150405.000000Z") + localSuffix(timestamp)
}

func localSuffix(timestamp string) string {
	return "-" + strings.NewReplacer(" ", "T", ":", "", "-", "").Replace(timestamp) + ".parquet"
}

// dayKey is the object that the snapshots of a date are merged into.
func dayKey(date string) string { return dayPrefix + date + "/snapshots.parquet" }

// PutSnapshot puts a snapshot of a time, which its rows have as a local timestamp. Each row has a value for each field
// of parquet.Schema.
func PutSnapshot(ctx context.Context, b *bucket.Bucket, at time.Time, timestamp string, rows [][]any) error {
	key := snapshotKey(at, timestamp)
	data, err := parquet.Encode(parquet.Schema, rows)
	if err != nil {
		return err
	}
	_, err = b.Put(ctx, key, data, bucket.Absent)
	if errors.Is(err, bucket.ErrPrecondition) { // an earlier try may have arrived
		there, _, failed := b.Get(ctx, key)
		if failed == nil && bytes.Equal(there, data) {
			return nil
		}
	}
	return err
}

// CountSnapshot returns the rows of the snapshot with a local timestamp, 0 if there is none.
func CountSnapshot(ctx context.Context, b *bucket.Bucket, timestamp string) (rows int, err error) {
	date := timestamp[:len("2026-07-01")]
	there, err := b.List(ctx, newPrefix+date+"/")
	if err != nil {
		return 0, err
	}
	keys := []string{dayKey(date)}
	for _, o := range there {
		if strings.HasSuffix(o.Key, localSuffix(timestamp)) {
			keys = append(keys, o.Key)
		}
	}
	for _, key := range keys {
		_, _, times, err := readSnapshots(ctx, b, key)
		if rows := times[timestamp]; rows > 0 || err != nil {
			return rows, err
		}
	}
	return 0, nil
}

// readSnapshots reads an object, and how many of its rows have which timestamp. Without it, etag is bucket.Absent.
func readSnapshots(ctx context.Context, b *bucket.Bucket, key string) (data []byte, etag string, times map[string]int,
	err error) {
	data, object, err := b.Get(ctx, key)
	if errors.Is(err, bucket.ErrNotFound) {
		return nil, bucket.Absent, map[string]int{}, nil
	}
	if err != nil {
		return nil, "", nil, err
	}
	if times, err = parquet.Timestamps(ctx, bytes.NewReader(data), int64(len(data))); err != nil {
		err = fmt.Errorf("%s: %w: restore it from a backup, or move it away", key, err)
	}
	return data, object.ETag, times, err
}

// Merge merges the snapshots of the days before a date, YYYY-MM-DD, into their days. It returns how many there were.
func Merge(ctx context.Context, b *bucket.Bucket, before string) (merged int, err error) {
	objects, err := b.List(ctx, newPrefix)
	if err != nil {
		return 0, err
	}
	days := map[string][]string{}
	for _, o := range objects {
		if found := dayObject.FindStringSubmatch(o.Key); found != nil && found[2] < before {
			days[found[2]] = append(days[found[2]], o.Key)
		}
	}
	for _, date := range slices.Sorted(maps.Keys(days)) {
		if err := mergeDay(ctx, b, date, days[date]); err != nil {
			return merged, fmt.Errorf("merging the snapshots of %s: %w", date, err)
		}
		merged += len(days[date])
	}
	return merged, nil
}

// mergeDay merges snapshots into their day, and retries if another process did so in the meantime.
func mergeDay(ctx context.Context, b *bucket.Bucket, date string, keys []string) error {
	const patience = 5
	err := bucket.ErrPrecondition
	for n := 0; n < patience && errors.Is(err, bucket.ErrPrecondition); n++ {
		err = putDay(ctx, b, date, keys)
	}
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := b.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// putDay writes a day with the snapshots that it lacks. Snapshots that are gone were merged by another process.
func putDay(ctx context.Context, b *bucket.Bucket, date string, keys []string) error {
	// Read the day, if there is one.
	day, etag, times, err := readSnapshots(ctx, b, dayKey(date))
	if err != nil {
		return err
	}
	var files [][]byte
	if day != nil {
		files = append(files, day)
	}
	// Add the snapshots that it lacks.
	there := len(files)
	for _, key := range keys {
		data, _, own, err := readSnapshots(ctx, b, key)
		if err != nil {
			return err
		}
		if data == nil {
			continue
		}
		if len(own) == 0 { // merging would remove it
			return fmt.Errorf("%s: no row has a timestamp: move it away", key)
		}
		lacks := false // the day lacks a time of the snapshot
		for timestamp := range own {
			lacks = lacks || times[timestamp] == 0
		}
		if lacks {
			files = append(files, data)
			maps.Copy(times, own)
		}
	}
	if len(files) == there {
		return nil
	}
	// Put it, unless another process has changed it meanwhile.
	var out bytes.Buffer
	if err := parquet.Rewrite(ctx, &out, files, parquet.Changes{}); err != nil {
		return err
	}
	_, err = b.Put(ctx, dayKey(date), out.Bytes(), etag)
	return err
}
