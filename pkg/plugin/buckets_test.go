package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/convert"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/objects"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// bucketSettings are those of a data source whose snapshots are in a bucket.
func bucketSettings(t *testing.T, o bucket.Options, more map[string]any) backend.DataSourceInstanceSettings {
	t.Helper()
	jsonData := map[string]any{"snapshotBucket": o.URL, "bucketEndpoint": o.Endpoint, "bucketPathStyle": o.PathStyle}
	for key, value := range more {
		jsonData[key] = value
	}
	settings := settingsOf(t, jsonData)
	settings.DecryptedSecureJSONData = map[string]string{secretAccessKey: o.AccessKey, secretSecretKey: o.SecretKey}
	return settings
}

// put puts the files of a pool into a bucket: its months in Parquet, by months or by days, and the other files of
// the directory.
func put(t *testing.T, b *bucket.Bucket, dir, zone string, byDays bool) {
	t.Helper()
	months := t.TempDir()
	var inParquet [][]byte
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		_, format, month := snapshots.ParseMonthFile(e.Name())
		switch {
		case month && format == "db":
			result, err := convert.File(t.Context(), path, months, nil)
			require.NoError(t, err)
			path = result.Path
		case e.IsDir(), strings.HasSuffix(e.Name(), ".jsonl"), strings.HasPrefix(e.Name(), "gpu_state_") && !month:
			continue // a copy of a month is not data
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		if byDays && filepath.Ext(path) == ".parquet" {
			inParquet = append(inParquet, data)
			continue
		}
		if len(data) > 0 {
			_, err = b.Put(t.Context(), filepath.Base(path), data, "")
			require.NoError(t, err)
		}
	}
	if byDays {
		putDays(t, b, inParquet, zone)
	}
}

// putDays puts months as a collector does: a snapshot at a time, merged when its day is over.
func putDays(t *testing.T, b *bucket.Bucket, months [][]byte, zone string) {
	t.Helper()
	var joined bytes.Buffer
	require.NoError(t, parquet.Rewrite(t.Context(), &joined, months, parquet.Changes{}))
	data := joined.Bytes()
	f, err := parquet.Open(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	var order []string
	taken := map[string][][]any{}
	column := slices.IndexFunc(parquet.Schema, func(f parquet.Field) bool { return f.Name == "timestamp" })
	require.NoError(t, f.EachRow(t.Context(), 0, parquet.Schema, func(row []any) error {
		timestamp, _ := row[column].(string)
		if taken[timestamp] == nil {
			order = append(order, timestamp)
		}
		taken[timestamp] = append(taken[timestamp], append([]any{}, row...))
		return nil
	}))
	parsed, err := localtime.Parse([]byte(`"` + zone + `"`))
	require.NoError(t, err)
	resolver := parsed.NewResolver()
	for _, timestamp := range order {
		local, err := localtime.ParseLocal([]byte(timestamp))
		require.NoError(t, err)
		at := pool.Time(resolver.Resolve(local).Time)
		require.NoError(t, objects.PutSnapshot(t.Context(), b, at, timestamp, taken[timestamp]))
	}
	_, err = objects.Merge(t.Context(), b, order[len(order)-1][:len("2026-07-01")]) // the last one is still running
	require.NoError(t, err)
}

// goldenAnswers are what a golden pool answers to every view over all of it, out of its directory.
type goldenAnswers struct {
	dir     string
	first   time.Time
	end     time.Time
	queries []backend.DataQuery
	want    []string
}

func goldenPool(t *testing.T, name, zone string) goldenAnswers {
	t.Helper()
	g := goldenAnswers{dir: golden.Pool(t, name)}
	here := map[string]any{"timezone": zone, "snapshotDir": g.dir}
	d := open(t, time.Now(), here)
	stores, done, err := d.use(t.Context())
	require.NoError(t, err)
	first, last, ok, err := stores.Timeline.Range(t.Context())
	require.NoError(t, err)
	require.True(t, ok)
	done()
	g.first, g.end = pool.Time(first), pool.Time(last).Add(time.Minute)
	for i, model := range everyView() {
		g.queries = append(g.queries, backend.DataQuery{RefID: fmt.Sprint(i), JSON: json.RawMessage(model),
			Interval: time.Minute, MaxDataPoints: 1000, TimeRange: backend.TimeRange{From: g.first, To: g.end}})
	}
	g.want = answered(t, open(t, g.end, here), g.queries...)
	return g
}

// requireAnswers compares a data source's answers with those out of the directory.
func (g goldenAnswers) requireAnswers(t *testing.T, d *Datasource, how string) {
	t.Helper()
	got := answered(t, d, g.queries...)
	for i := range g.want {
		require.Equal(t, g.want[i], got[i], "%s: %s", how, g.queries[i].JSON)
	}
}

// The golden pools are answered alike out of a directory and out of a bucket, by months and by days.
func TestGoldenPoolsInABucket(t *testing.T) {
	server := buckettest.Start(t)
	for name, zone := range map[string]string{"pool-a": "UTC", "pool-b": "America/Chicago", "pool-c": "America/Chicago"} {
		t.Run(name, func(t *testing.T) {
			g := goldenPool(t, name, zone)
			for _, byDays := range []bool{false, true} {
				o := server.Bucket(t)
				put(t, buckettest.Open(t, o), g.dir, zone, byDays)
				d := Open(bucketSettings(t, o, map[string]any{"timezone": zone}), func() time.Time { return g.end })
				t.Cleanup(d.Dispose)
				g.requireAnswers(t, d, fmt.Sprintf("by days %v", byDays))
			}
		})
	}
}

// An unreachable bucket: cached data are answered with a notice, all other queries fail with an error that names the
// bucket. No answer, finding, or log line contains a key. When the bucket is reachable again, the answers are complete.
func TestUnreachableBucket(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	server := buckettest.Start(t)
	proxy := buckettest.NewProxy(t, server, false)
	options := server.Bucket(t)
	put(t, buckettest.Open(t, options), dir, "UTC", false)
	options.Endpoint = proxy.Endpoint
	settings := bucketSettings(t, options, nil)
	d := Open(settings, func() time.Time { return o.End })
	t.Cleanup(d.Dispose)
	half := queryOf(t, o, "half", `{"queryType": "allocation", "view": "summary"}`)
	half.TimeRange.From = o.End.Add(-6 * time.Hour)
	whole := queryOf(t, o, "whole", `{"queryType": "allocation", "view": "summary"}`)
	ask := func(d *Datasource, q backend.DataQuery) backend.DataResponse {
		t.Helper()
		r, err := d.QueryData(t.Context(), &backend.QueryDataRequest{Queries: []backend.DataQuery{q}})
		require.NoError(t, err)
		text, err := json.Marshal(r.Responses[q.RefID])
		require.NoError(t, err)
		require.NotContains(t, string(text)+fmt.Sprint(r.Responses[q.RefID].Error), buckettest.SecretKey)
		require.NotContains(t, string(text)+fmt.Sprint(r.Responses[q.RefID].Error), buckettest.AccessKey)
		return r.Responses[q.RefID]
	}
	before := ask(d, half)
	require.NoError(t, before.Error)
	for name, fault := range map[string]buckettest.Fault{"gone": buckettest.Gone, "busy": buckettest.Busy} {
		proxy.Set(fault)
		kept := ask(d, half)
		require.NoError(t, kept.Error, name)
		notices, err := json.Marshal(kept.Frames[0].Meta.Notices)
		require.NoError(t, err)
		require.Contains(t, string(notices), options.URL, name)
		require.Contains(t, string(notices), "Answered from data read earlier", name)
		require.Equal(t, golden.Rows(before.Frames), golden.Rows(kept.Frames), name)

		fresh := Open(settings, func() time.Time { return o.End })
		t.Cleanup(fresh.Dispose)
		failed := ask(fresh, half)
		require.ErrorContains(t, failed.Error, options.URL, name)
		require.Equal(t, backend.StatusBadGateway, failed.Status, name)
		health, err := fresh.CheckHealth(t.Context(), &backend.CheckHealthRequest{PluginContext: someone("Admin")})
		require.NoError(t, err)
		require.Equal(t, backend.HealthStatusError, health.Status)
		require.Contains(t, health.Message, options.URL)
		require.NotContains(t, health.Message+string(health.JSONDetails), buckettest.SecretKey)
	}
	missing := ask(d, whole)
	require.True(t, missing.Error != nil || strings.Contains(fmt.Sprint(missing.Frames[0].Meta.Notices), options.URL))
	proxy.Set(nil)
	checked(t, d)
	proxy.Set(buckettest.Times(2, buckettest.Any, buckettest.Cut))
	require.NoError(t, ask(d, whole).Error)
	after := ask(d, half)
	require.NoError(t, after.Error)
	require.Equal(t, before.Frames[0].Meta.Notices, after.Frames[0].Meta.Notices)
	health, err := d.CheckHealth(t.Context(), &backend.CheckHealthRequest{PluginContext: someone("Admin")})
	require.NoError(t, err)
	require.Contains(t, health.Message, options.URL)
	require.NotContains(t, health.Message+string(health.JSONDetails), buckettest.SecretKey)
	require.NotContains(t, health.Message+string(health.JSONDetails), buckettest.AccessKey)
}

// checked is a health check, which asks the bucket again at once.
func checked(t *testing.T, d *Datasource) string {
	t.Helper()
	health, err := d.CheckHealth(t.Context(), &backend.CheckHealthRequest{PluginContext: someone("Admin")})
	require.NoError(t, err)
	return health.Message
}

// A bucket that has become unreachable is retried after a pause, not by each query: meanwhile the current day and
// everything else in memory is answered, with a notice that names the bucket, since when it fails, and how old the
// answer is. A server that has nothing in memory answers with the error, without a request each time. A health check
// sends a request immediately.
func TestBucketLeftAlone(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	server := buckettest.Start(t)
	for _, byDays := range []bool{false, true} {
		t.Run(fmt.Sprintf("by days %v", byDays), func(t *testing.T) {
			proxy := buckettest.NewProxy(t, server, false)
			options := server.Bucket(t)
			put(t, buckettest.Open(t, options), dir, "UTC", byDays)
			options.Endpoint = proxy.Endpoint
			settings := bucketSettings(t, options, map[string]any{"segmentBucket": options.URL + "/made"})
			d := Open(settings, func() time.Time { return o.End })
			t.Cleanup(d.Dispose)
			fresh := Open(settings, func() time.Time { return o.End })
			t.Cleanup(fresh.Dispose)
			queries := []backend.DataQuery{queryOf(t, o, "all", `{"queryType": "allocation", "view": "summary"}`),
				queryOf(t, o, "now", `{"queryType": "allocation", "view": "current"}`)}
			ask := func(d *Datasource) backend.Responses {
				t.Helper()
				r, err := d.QueryData(t.Context(), &backend.QueryDataRequest{Queries: queries})
				require.NoError(t, err)
				return r.Responses
			}
			before := ask(d)
			var asked atomic.Int64
			proxy.Set(func(w http.ResponseWriter, r *http.Request, s http.Handler) {
				asked.Add(1)
				buckettest.Gone(w, r, s)
			})
			begin := time.Now().UTC().Truncate(time.Second)
			first := ask(d)
			require.NotZero(t, asked.Load())
			require.ErrorContains(t, ask(fresh)["all"].Error, options.URL)
			asked.Store(0)
			for range 3 {
				again := ask(d)
				for _, q := range queries {
					require.NoError(t, again[q.RefID].Error)
					require.Equal(t, golden.Rows(before[q.RefID].Frames), golden.Rows(again[q.RefID].Frames))
					require.Equal(t, golden.Rows(first[q.RefID].Frames), golden.Rows(again[q.RefID].Frames))
					notices := fmt.Sprint(again[q.RefID].Frames[0].Meta.Notices)
					require.Contains(t, notices, options.URL)
					require.Regexp(t, `\(since `+begin.Format("2006-01-02 15:")+`\d\d:\d\d UTC\)`, notices)
					require.Regexp(t, `last listed at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, \d min ago; newer ones are missing`,
						notices)
					failed := ask(fresh)[q.RefID]
					require.ErrorContains(t, failed.Error, options.URL)
					require.Equal(t, backend.StatusBadGateway, failed.Status)
				}
			}
			require.Zero(t, asked.Load(), "it is left alone")
			require.Contains(t, checked(t, d), options.URL)
			require.NotZero(t, asked.Load())
			proxy.Set(nil)
			for _, source := range []*Datasource{d, fresh} {
				require.NotContains(t, checked(t, source), "cannot be reached")
				for id, answer := range ask(source) {
					require.NoError(t, answer.Error)
					require.Equal(t, golden.Rows(before[id].Frames), golden.Rows(answer.Frames))
					require.NotContains(t, fmt.Sprint(answer.Frames[0].Meta.Notices), options.URL)
				}
			}
		})
	}
}

// A server that answers with another ETag than it listed is read anyway, each object in one request.
func TestBucketWithWrongETags(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	server := buckettest.Start(t)
	proxy := buckettest.NewProxy(t, server, false)
	options := server.Bucket(t)
	put(t, buckettest.Open(t, options), dir, "UTC", false)
	options.Endpoint = proxy.Endpoint
	proxy.Set(func(w http.ResponseWriter, r *http.Request, s http.Handler) {
		if strings.HasSuffix(r.URL.Path, ".parquet") {
			buckettest.OtherETag(w, r, s)
			return
		}
		s.ServeHTTP(w, r)
	})
	d := Open(bucketSettings(t, options, nil), func() time.Time { return o.End })
	t.Cleanup(d.Dispose)
	query := queryOf(t, o, "A", `{"queryType": "allocation", "view": "summary"}`)
	want := answered(t, open(t, o.End, map[string]any{"snapshotDir": dir}), query)
	got := answered(t, d, query)
	values := func(answer []string) string { return answer[0][strings.LastIndex(answer[0], `"data":`):] }
	require.Equal(t, values(want), values(got))
}

// The lists in the bucket count from the first answer onward, as does the job file.
func TestFilesBesideTheSnapshotsOfABucket(t *testing.T) {
	o := small()
	dir, p := writePool(t, o)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "masked_hosts.yaml"),
		[]byte("excluded_hosts: {"+p.Machines()[0].Name+": broken}"), 0o600))
	options := buckettest.Start(t).Bucket(t)
	put(t, buckettest.Open(t, options), dir, "UTC", false)
	cache := t.TempDir()
	more := map[string]any{"jobs": "sqlite", "jobsPath": "jobs.db", "cacheDir": cache}
	var queries []backend.DataQuery
	for i, model := range everyView() {
		queries = append(queries, queryOf(t, o, fmt.Sprint(i), model))
	}
	want := answered(t, open(t, o.End, map[string]any{"snapshotDir": dir, "jobs": "sqlite", "jobsPath": "jobs.db"}),
		queries...)
	for range 2 { // the second time out of the cache directory
		d := Open(bucketSettings(t, options, more), func() time.Time { return o.End })
		require.Equal(t, want, answered(t, d, queries...))
		d.Dispose()
	}
}

// Grafana opens only buckets that the operator allows; the server's own keys go only to servers that are named.
func TestAllowedBuckets(t *testing.T) {
	own := bucket.Options{URL: "s3://pool-a/x", Endpoint: "https://s3.example.com", AccessKey: "a", SecretKey: "b"}
	lent := bucket.Options{URL: "s3://pool-a/x", Endpoint: "https://s3.example.com"}
	amazon := bucket.Options{URL: "s3://pool-a/x"}
	for _, c := range []struct {
		allowed           string
		own, lent, amazon bool
	}{
		{"", false, false, false},
		{" , ", false, false, false},
		{"*", true, false, false},
		{"s3://pool-a", true, false, true},
		{"s3://pool-a/x/", true, false, true},
		{"s3://pool-a/y, s3://pool", false, false, false},
		{"https://s3.example.com/pool-a", true, true, false},
		{"https://s3.example.com/pool-b,https://s3.example.com.evil.org/pool-a", false, false, false},
	} {
		t.Setenv("GF_PLUGIN_ALLOWED_BUCKETS", c.allowed)
		for i, o := range []bucket.Options{own, lent, amazon} {
			err := allowBucket("snapshotBucket", o)
			require.Equal(t, []bool{c.own, c.lent, c.amazon}[i], err == nil, "%q %d: %v", c.allowed, i, err)
			if err != nil {
				require.ErrorContains(t, err, "allowed_buckets")
				require.Equal(t, pool.FaultQuery, pool.FaultOf(err))
			}
		}
	}
	t.Setenv("GF_PLUGIN_ALLOWED_BUCKETS", "")
	instance, err := New(context.Background(), bucketSettings(t, own, nil))
	require.NoError(t, err)
	d := instance.(*Datasource)
	t.Cleanup(d.Dispose)
	health, err := d.CheckHealth(t.Context(), &backend.CheckHealthRequest{PluginContext: someone("Admin")})
	require.NoError(t, err)
	require.Equal(t, backend.HealthStatusError, health.Status)
	require.Contains(t, health.Message, "allowed_buckets")
}

func TestBucketSettings(t *testing.T) {
	for text, want := range map[string]string{
		`{"snapshotBucket": "s3://pool-a/x"}`:                         "",
		`{"snapshotBucket": "s3://pool-a", "snapshotDir": "/data"}`:   "both set",
		`{"snapshotBucket": "pool-a"}`:                                "s3://bucket/prefix",
		`{"snapshotBucket": "s3://pool-a", "bucketEndpoint": "s3.x"}`: "https://host",
		`{"snapshotBucket": "s3://pool-a", "bucketCA": "x"}`:          "PEM",
		`{}`: "set snapshotBucket instead",
	} {
		_, err := ParseSettings(json.RawMessage(text))
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
		require.Equal(t, pool.FaultQuery, pool.FaultOf(err))
	}
}
