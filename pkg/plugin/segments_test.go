package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket/buckettest"
	"github.com/chtc/gpureports/pkg/golden"
	"github.com/chtc/gpureports/pkg/pool"
)

// The golden pools are answered alike with finished days in a bucket: by the data source that makes them, by one that
// finds them there, and after they were built ahead of time.
func TestGoldenPoolsWithSharedDays(t *testing.T) {
	server := buckettest.Start(t)
	for name, zone := range map[string]string{"pool-a": "UTC", "pool-b": "America/Chicago", "pool-c": "America/Chicago"} {
		t.Run(name, func(t *testing.T) {
			dir := golden.Pool(t, name)
			here := map[string]any{"timezone": zone, "snapshotDir": dir}
			d := open(t, time.Now(), here)
			stores, done, err := d.use(t.Context())
			require.NoError(t, err)
			first, last, ok, err := stores.Timeline.Range(t.Context())
			require.NoError(t, err)
			require.True(t, ok)
			done()
			end := pool.Time(last).Add(time.Minute)
			var queries []backend.DataQuery
			for i, model := range everyView() {
				queries = append(queries, backend.DataQuery{RefID: fmt.Sprint(i), JSON: json.RawMessage(model),
					Interval: time.Minute, MaxDataPoints: 1000, TimeRange: backend.TimeRange{From: pool.Time(first), To: end}})
			}
			want := answered(t, open(t, end, here), queries...)
			o := server.Bucket(t)
			settings := settingsOf(t, map[string]any{"timezone": zone, "snapshotDir": dir, "segmentBucket": o.URL,
				"bucketEndpoint": o.Endpoint, "bucketPathStyle": o.PathStyle})
			settings.DecryptedSecureJSONData = map[string]string{secretAccessKey: o.AccessKey, secretSecretKey: o.SecretKey}
			for round := range 2 {
				d := Open(settings, func() time.Time { return end })
				t.Cleanup(d.Dispose)
				got := answered(t, d, queries...)
				for i := range want {
					require.Equal(t, want[i], got[i], "round %d: %s", round, queries[i].JSON)
				}
				checked, err := d.CheckHealth(t.Context(), nil)
				require.NoError(t, err)
				require.Contains(t, checked.Message, "Finished days are shared through "+o.URL)
				require.NotContains(t, checked.Message, buckettest.SecretKey)
			}
			builder := Open(settings, time.Now)
			t.Cleanup(builder.Dispose)
			missing := 0
			require.NoError(t, builder.Build(t.Context(), pool.Time(first), end, false, func(day BuiltDay) {
				require.NoError(t, day.Err)
				if day.Missing {
					missing++
				}
			}))
			require.NoError(t, builder.Build(t.Context(), pool.Time(first), end, true, func(day BuiltDay) {
				require.NoError(t, day.Err)
				require.False(t, day.Missing, day.Date)
			}))
		})
	}
}

// Without the setting there is nothing to build for; a bucket that cannot be one is told at once.
func TestSegmentBucketSetting(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	err := d.Build(t.Context(), o.Start, o.End, false, func(BuiltDay) {})
	require.ErrorContains(t, err, "segmentBucket is not set")
	require.Equal(t, pool.FaultQuery, pool.FaultOf(err))
	_, err = ParseSettings(json.RawMessage(`{"snapshotDir": "/a", "segmentBucket": "bucket/prefix"}`))
	require.ErrorContains(t, err, "segmentBucket: the bucket must be written as s3://bucket/prefix")

	t.Setenv("GF_PLUGIN_ALLOWED_BUCKETS", "s3://other")
	instance, err := New(context.Background(), settingsOf(t, map[string]any{"snapshotDir": dir,
		"segmentBucket": "s3://gpu-pool"}))
	require.NoError(t, err)
	defer instance.(*Datasource).Dispose()
	require.ErrorContains(t, instance.(*Datasource).invalid, "segmentBucket s3://gpu-pool")
}
