package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/bucket/buckettest"
	"github.com/chtc/gpureports/pkg/convert"
	"github.com/chtc/gpureports/pkg/plugin"
)

// inBucket measures a data source that keeps nothing on this machine: with the month's snapshots in a bucket of an S3
// server on this machine, then with finished days in it as well, then with a year of finished days.
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
	o, err := server.Make(ctx)
	if err != nil {
		return err
	}
	if err := b.putMonth(ctx, o); err != nil {
		return err
	}
	month := map[string]any{"snapshotBucket": o.URL}
	past := now.AddDate(0, 0, -10)
	if err := b.firstInBucket(ctx, "22 hours of a UTC day, nothing on this machine", o, month, past.Add(90*time.Minute),
		past.Add(23*time.Hour+30*time.Minute), 60); err != nil {
		return err
	}
	month["segmentBucket"] = o.URL
	if err := b.build(ctx, o, month); err != nil {
		return err
	}
	if err := b.firstInBucket(ctx, "30 days, nothing on this machine, finished days in the bucket", o, month,
		windowEnd.AddDate(0, 0, -min(30, b.Days-2)), windowEnd, 400); err != nil {
		return err
	}
	return b.yearInBucket(ctx, o)
}

// putMonth puts the month's files in Parquet into a bucket.
func (b *bench) putMonth(ctx context.Context, o bucket.Options) error {
	files, err := filepath.Glob(filepath.Join(b.month(), "gpu_state_*.db"))
	if err != nil {
		return err
	}
	parquet, err := os.MkdirTemp("", "gpureports-bench-parquet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(parquet)
	to, err := bucket.Open(o)
	if err != nil {
		return err
	}
	defer to.Close()
	for _, file := range files {
		converted, err := convert.File(ctx, file, parquet)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(converted.Path)
		if err != nil {
			return err
		}
		if _, err := to.Put(ctx, filepath.Base(converted.Path), data, bucket.Always()); err != nil {
			return err
		}
	}
	return nil
}

// build makes finished days ahead of time.
func (b *bench) build(ctx context.Context, o bucket.Options, jsonData map[string]any) error {
	settings, err := bucketSettings(o, jsonData)
	if err != nil {
		return err
	}
	source := plugin.Open(settings, func() time.Time { return now })
	defer source.Dispose()
	var failed error
	days, begin := 0, time.Now()
	if err := source.Build(ctx, now.AddDate(0, 0, -40), now, false, func(day plugin.BuiltDay) {
		failed = errors.Join(failed, day.Err)
		days++
	}); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	b.add(Figure{Area: "bucket", What: "a finished day built", Value: time.Since(begin).Seconds() * 1000 / float64(days),
		Unit: "ms", Note: fmt.Sprintf("%d days, spans and usage", days)})
	return nil
}

// yearInBucket shares a year of finished days, made as segments, and asks a data source that has none of them for all.
func (b *bench) yearInBucket(ctx context.Context, o bucket.Options) error {
	o.URL += "/year"
	to, err := bucket.Open(o)
	if err != nil {
		return err
	}
	dir, err := b.synthesize(ctx, b.Machines, b.GPUs, b.Days, to)
	if err != nil {
		return err
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	return b.firstInBucket(ctx, fmt.Sprintf("%d days, finished days in the bucket", b.Days), o,
		map[string]any{"snapshotDir": absolute, "segmentBucket": o.URL}, windowEnd.AddDate(0, 0, -b.Days), windowEnd, 2000)
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
		for _, stat := range frames[0].Meta.Stats {
			if stat.DisplayName == "Rows read" {
				rows = stat.Value
			}
		}
		asked = source.Asked()
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	b.add(Figure{Area: "bucket", What: what, Value: took, Unit: "ms", Target: target,
		Note: fmt.Sprintf("%d requests, %.2f MB, %.0f rows of snapshots", asked.Requests, float64(asked.Received)/1e6, rows)})
	return nil
}

// bucketSettings are those of a data source without a cache directory.
func bucketSettings(o bucket.Options, jsonData map[string]any) (backend.DataSourceInstanceSettings, error) {
	all := map[string]any{"bucketEndpoint": o.Endpoint, "bucketPathStyle": o.PathStyle, "cacheMaxMB": 4096,
		"timezone": "UTC"}
	for name, value := range jsonData {
		all[name] = value
	}
	text, err := json.Marshal(all)
	return backend.DataSourceInstanceSettings{UID: "bench", Name: "bench", Updated: now, JSONData: text,
		DecryptedSecureJSONData: map[string]string{"bucketAccessKey": o.AccessKey, "bucketSecretKey": o.SecretKey}}, err
}
