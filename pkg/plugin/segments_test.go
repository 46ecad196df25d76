package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/pool"
)

// The golden pools are answered alike with finished days in a bucket: by the data source that makes them, by one that
// finds them there, and after they were built ahead of time.
func TestGoldenPoolsWithSharedDays(t *testing.T) {
	server := buckettest.Start(t)
	for name, zone := range map[string]string{"pool-a": "UTC", "pool-b": "America/Chicago", "pool-c": "America/Chicago"} {
		t.Run(name, func(t *testing.T) {
			g := goldenPool(t, name, zone)
			o := server.Bucket(t)
			settings := settingsOf(t, map[string]any{"timezone": zone, "snapshotDir": g.dir, "segmentBucket": o.URL,
				"bucketEndpoint": o.Endpoint, "bucketPathStyle": o.PathStyle})
			settings.DecryptedSecureJSONData = map[string]string{secretAccessKey: o.AccessKey, secretSecretKey: o.SecretKey}
			for round := range 2 {
				d := Open(settings, func() time.Time { return g.end })
				t.Cleanup(d.Dispose)
				g.requireAnswers(t, d, fmt.Sprintf("round %d", round))
				checked, err := d.CheckHealth(t.Context(), &backend.CheckHealthRequest{PluginContext: someone("Admin")})
				require.NoError(t, err)
				require.Contains(t, checked.Message, "Finished days are shared through "+o.URL)
				require.NotContains(t, checked.Message, buckettest.SecretKey)
			}
			builder := Open(settings, time.Now)
			t.Cleanup(builder.Dispose)
			missing := 0
			require.NoError(t, builder.Build(t.Context(), g.first, g.end, false, func(day BuiltDay) {
				require.NoError(t, day.Err)
				if day.Missing {
					missing++
				}
			}))
			require.NoError(t, builder.Build(t.Context(), g.first, g.end, true, func(day BuiltDay) {
				require.NoError(t, day.Err)
				require.False(t, day.Missing, day.Date)
				date, err := time.Parse(time.DateOnly, day.Date)
				require.NoError(t, err)
				require.WithinRange(t, date, g.first.Add(-24*time.Hour), g.end)
			}))
		})
	}
}

// Without the setting there is nothing to build for; a bucket that cannot be one is an error at once.
func TestSegmentBucketSetting(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	err := d.Build(t.Context(), o.Start, o.End, false, func(BuiltDay) {})
	require.ErrorContains(t, err, "segmentBucket is not set")
	require.Equal(t, pool.FaultQuery, pool.FaultOf(err))
	_, err = ParseSettings(json.RawMessage(`{"snapshotDir": "/a", "segmentBucket": "bucket/prefix"}`))
	require.ErrorContains(t, err, "segmentBucket: the bucket must be written as s3://bucket/prefix")

	away := buckettest.Start(t).Bucket(t)
	away.Endpoint = "http://127.0.0.1:1"
	d = Open(bucketSettings(t, away, map[string]any{"snapshotBucket": "", "snapshotDir": dir,
		"segmentBucket": "s3://days"}), func() time.Time { return o.End })
	defer d.Dispose()
	answered(t, d, queryOf(t, o, "A", `{"queryType": "allocation"}`))
	_, found := health(t, d)
	require.Contains(t, found["segments"].Text, "finished days are built from the snapshots")
	require.Equal(t, check.Warning, found["segments"].Severity)

	t.Setenv("GF_PLUGIN_ALLOWED_BUCKETS", "s3://other")
	instance, err := New(context.Background(), settingsOf(t, map[string]any{"snapshotDir": dir,
		"segmentBucket": "s3://gpu-pool"}))
	require.NoError(t, err)
	defer instance.(*Datasource).Dispose()
	require.ErrorContains(t, instance.(*Datasource).invalid, "segmentBucket s3://gpu-pool")
}
