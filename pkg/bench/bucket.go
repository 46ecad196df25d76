package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/bucket/buckettest"
	"github.com/chtc/gpureports/pkg/convert"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/samplepool"
)

// inBucket measures a data source that keeps nothing on this machine, with an S3 server on this machine: over a bucket
// with the snapshots of a month in month objects, then over those with a month's and with all days' in day objects.
func (b *bench) inBucket(ctx context.Context) error {
	data, err := os.MkdirTemp("", "gpureports-bench-s3-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	server, stop, err := buckettest.Launch(data)
	if err != nil {
		return err
	}
	defer stop()
	for _, layout := range []struct {
		name string
		put  func(context.Context, *bucket.Bucket, int) error
		days int
	}{
		{"month objects", b.putMonth, 32}, {"day objects", b.putDays, 32}, {"day objects", b.putDays, b.bucketDays()},
	} {
		o, err := server.Make(ctx)
		if err != nil {
			return err
		}
		to, err := bucket.Open(o)
		if err != nil {
			return err
		}
		if err := errors.Join(layout.put(ctx, to, layout.days), b.overBucket(ctx, o, layout.name, layout.days)); err != nil {
			return err
		}
		to.Close()
	}
	return nil
}

// putMonth puts the month's files in Parquet into a bucket.
func (b *bench) putMonth(ctx context.Context, to *bucket.Bucket, _ int) error {
	files, err := filepath.Glob(filepath.Join(b.month(), "gpu_state_*.db"))
	if err != nil {
		return err
	}
	parquet, err := os.MkdirTemp("", "gpureports-bench-parquet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(parquet)
	for _, file := range files {
		if _, err := convert.File(ctx, file, parquet); err != nil {
			return err
		}
	}
	return putFiles(ctx, to, parquet, "*.parquet", len(files))
}

// bucketDays is how many days are put into a bucket: those of the longest window and of its edges.
func (b *bench) bucketDays() int { return b.Days + 2 }

// putDays puts the Parquet files of the newest days into a bucket. All are made, unless they are there from an earlier
// run.
func (b *bench) putDays(ctx context.Context, to *bucket.Bucket, days int) error {
	dir := b.path(fmt.Sprintf("days-%d-%d-%d", b.Machines, b.GPUs, b.bucketDays()))
	if _, err := os.Stat(dir); err != nil {
		partial := dir + ".part"
		if err := errors.Join(os.RemoveAll(partial), os.MkdirAll(partial, 0o700)); err != nil {
			return err
		}
		made, err := samplepool.New(options(b.Machines, b.GPUs, b.bucketDays()))
		if err != nil {
			return err
		}
		if err := errors.Join(made.WriteDays(ctx, partial), os.Rename(partial, dir)); err != nil {
			return err
		}
	}
	return putFiles(ctx, to, dir, "date=*/*.parquet", days)
}

// putFiles puts the last ones of the files of a directory that match a pattern into a bucket.
func putFiles(ctx context.Context, to *bucket.Bucket, dir, pattern string, last int) error {
	files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
	if err != nil {
		return err
	}
	group, inner := parallel.WithContext(ctx)
	group.SetLimit(4)
	for _, file := range files[max(0, len(files)-last):] {
		group.Go(func() error {
			key, err := filepath.Rel(dir, file)
			if err != nil {
				return err
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			_, err = to.Put(inner, filepath.ToSlash(key), data, bucket.Always())
			return err
		})
	}
	return group.Wait()
}

// overBucket measures first panels over a bucket with the snapshots of so many days: without finished days in it, then
// with them.
func (b *bench) overBucket(ctx context.Context, o bucket.Options, layout string, days int) error {
	settings := map[string]any{"snapshotBucket": o.URL}
	past := now.AddDate(0, 0, -10)
	if err := b.firstInBucket(ctx, fmt.Sprintf("22 hours of a UTC day, %d days of %s", days, layout), o, settings,
		past.Add(90*time.Minute), past.Add(23*time.Hour+30*time.Minute), 60); err != nil {
		return err
	}
	settings["segmentBucket"] = o.URL
	if err := b.build(ctx, o, settings, layout); err != nil {
		return err
	}
	for _, window := range []struct {
		days   int
		target float64
	}{{30, 400}, {b.Days, 2000}} {
		if window.days > days-2 {
			continue
		}
		what := fmt.Sprintf("%d days, finished days in the bucket, %d days of %s", window.days, days, layout)
		if err := b.firstInBucket(ctx, what, o, settings, windowEnd.AddDate(0, 0, -window.days), windowEnd,
			window.target); err != nil {
			return err
		}
	}
	return nil
}

// build makes finished days ahead of time.
func (b *bench) build(ctx context.Context, o bucket.Options, jsonData map[string]any, layout string) error {
	settings, err := bucketSettings(o, jsonData)
	if err != nil {
		return err
	}
	source := plugin.Open(settings, func() time.Time { return now })
	defer source.Dispose()
	var failed error
	days, begin := 0, time.Now()
	if err := source.Build(ctx, time.Unix(0, 0), now, false, func(day plugin.BuiltDay) {
		failed = errors.Join(failed, day.Err)
		days++
	}); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	b.add(Figure{Area: "bucket", What: "a finished day built of " + layout,
		Value: time.Since(begin).Seconds() * 1000 / float64(days), Unit: "ms",
		Note: fmt.Sprintf("%d days, spans and usage", days)})
	return nil
}

// firstInBucket measures the first panel of a fresh data source.
func (b *bench) firstInBucket(ctx context.Context, what string, o bucket.Options, jsonData map[string]any, from,
	to time.Time, target float64) error {
	settings, err := bucketSettings(o, jsonData)
	if err != nil {
		return err
	}
	var asked bucket.Counts
	rows := 0.0
	took, _, err := timed(5, func(int) error {
		source := plugin.Open(settings, func() time.Time { return now })
		defer source.Dispose()
		frames, err := framesOf(ctx, source, byCategory, from, to)
		if err != nil {
			return err
		}
		rows = rowsRead(frames)
		asked = source.Asked()
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	b.add(Figure{Area: "bucket", What: "first panel, " + what, Value: took, Unit: "ms", Target: target,
		Note: fmt.Sprintf("%d requests, %.2f MB, %.0f rows of snapshots", asked.Requests, float64(asked.Received)/1e6, rows)})
	return nil
}

// bucketSettings are those of a data source without a cache directory.
func bucketSettings(o bucket.Options, jsonData map[string]any) (backend.DataSourceInstanceSettings, error) {
	all := map[string]any{"bucketEndpoint": o.Endpoint, "bucketPathStyle": o.PathStyle}
	maps.Copy(all, jsonData)
	return instance(all, map[string]string{"bucketAccessKey": o.AccessKey, "bucketSecretKey": o.SecretKey})
}
