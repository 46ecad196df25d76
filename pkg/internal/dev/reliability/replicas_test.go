//go:build unix

package reliability

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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/host"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/snapshots/objects"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// Two plugin processes answer from one bucket while the collector writes into it and merges days, and clients ask all
// the while: no answer is an error, those over a day that is over are always the same, and in the end both answer all
// views as the directory does: each snapshot counts once.
func TestReplicasOnOneBucket(t *testing.T) {
	o := small(func(o *samplepool.Options) { o.Format = "parquet" })
	o.End = o.Start.Add(30 * time.Hour)
	ahead, clients := 3, 1
	if *long {
		o.End, ahead, clients = o.Start.AddDate(0, 0, 10), 1000, 8
	}
	dir := write(t, o)
	all := snapshotsOf(t, dir)
	options := buckettest.Start(t).Bucket(t)
	b := buckettest.Open(t, options)
	putBeside(t, b, dir)

	// the first day and a little more is there; the day is merged while clients ask
	past := o.Start.AddDate(0, 0, 1)
	first := slices.IndexFunc(all, func(s snapshot) bool { return s.at.After(past.Add(time.Hour)) })
	require.Positive(t, first)
	collect := func(s snapshot) error { return objects.PutSnapshot(t.Context(), b, s.at, s.timestamp, s.rows) }
	for _, s := range all[:first] {
		require.NoError(t, collect(s))
	}
	const query = `{"queryType": "allocation", "view": "summary"}`
	here := start(t).Source(saved(t, 9, map[string]any{"snapshotDir": dir}))
	end := past.Add(-time.Hour)
	want := figures(t, ask(t, here, o.Start, end, query)[0])

	var sources []*host.Source
	keys := map[string]string{"bucketAccessKey": options.AccessKey, "bucketSecretKey": options.SecretKey}
	for range 2 {
		process := start(t, "GF_PLUGIN_ALLOWED_BUCKETS=*")
		sources = append(sources, process.Source(bucketSource(t, 1, options, keys)))
	}
	ctx, stop := context.WithCancel(t.Context())
	var asked atomic.Int64
	var wait sync.WaitGroup
	for _, source := range sources {
		for range clients {
			wait.Go(func() {
				for ctx.Err() == nil {
					answers := ask(t, source, o.Start, end, query, `{"queryType": "allocation", "view": "current"}`)
					for _, a := range answers {
						if a.Error != nil {
							t.Errorf("while the collector writes: %v", a.Error)
							return
						}
					}
					if figures(t, answers[0]) != want {
						t.Error("an answer over a day that is over has changed")
						return
					}
					asked.Add(2)
				}
			})
		}
	}
	for i, s := range all[first:] {
		require.NoError(t, collect(s))
		_, err := objects.Merge(t.Context(), b, s.timestamp[:len("2026-07-01")])
		require.NoError(t, err)
		if i < ahead || i%20 == 0 { // the collector continues once a replica has seen it
			seen := asked.Load()
			require.Eventually(t, func() bool { return asked.Load() > seen || t.Failed() }, time.Minute, time.Millisecond)
		}
	}
	stop()
	wait.Wait()
	require.False(t, t.Failed())

	expected := ask(t, here, o.Start, o.End, views()...)
	for n, source := range sources {
		for i, answer := range ask(t, source, o.Start, o.End, views()...) {
			require.Equal(t, rounded(figures(t, expected[i])), rounded(figures(t, answer)), "replica %d: %s", n, views()[i])
		}
	}
	shared, err := b.List(t.Context(), "made/segments/")
	require.NoError(t, err)
	require.NotEmpty(t, shared, "finished days are shared")
	figure("Two replicas on one bucket while the collector writes and merges",
		"%d snapshots written, %d queries, no error; all views equal, out of a directory and of both", len(all)-first,
		asked.Load())
}

// snapshot is what the collector writes at once.
type snapshot struct {
	at        time.Time
	timestamp string
	rows      [][]any
}

// snapshotsOf reads the Parquet months of a directory, whose zone is UTC.
func snapshotsOf(t *testing.T, dir string) (all []snapshot) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "gpu_state_*.parquet"))
	require.NoError(t, err)
	found := map[string]int{}
	column := slices.IndexFunc(parquet.Schema, func(f parquet.Field) bool { return f.Name == "timestamp" })
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		f, err := parquet.Open(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		require.NoError(t, f.EachRow(t.Context(), 0, parquet.Schema, func(row []any) error {
			timestamp := fmt.Sprint(row[column])
			if _, known := found[timestamp]; !known {
				at, err := time.Parse("2006-01-02 15:04:05.000000", timestamp)
				if err != nil {
					return err
				}
				found[timestamp] = len(all)
				all = append(all, snapshot{at: at, timestamp: timestamp})
			}
			s := &all[found[timestamp]]
			s.rows = append(s.rows, slices.Clone(row))
			return nil
		}))
	}
	slices.SortFunc(all, func(a, b snapshot) int { return a.at.Compare(b.at) })
	return all
}

// putBeside puts the other files of a directory into a bucket.
func putBeside(t *testing.T, b *bucket.Bucket, dir string) {
	t.Helper()
	queues, err := filepath.Glob(filepath.Join(dir, "job_pressure_*.db"))
	require.NoError(t, err)
	names := []string{"chtc_owned", "masked_hosts.yaml", "gpu_tiers.yaml", "gpu_names.yaml"}
	for _, file := range queues {
		names = append(names, filepath.Base(file))
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || len(data) == 0 {
			continue // a list that is not there
		}
		_, err = b.Put(t.Context(), name, data, "")
		require.NoError(t, err)
	}
}

// Processes share a bucket and a cache directory. One that cannot fetch the lists at this moment, or is killed, takes
// nothing away from another; one with a wrong secret gets nothing of what the others keep, not even while the bucket
// cannot be reached.
func TestProcessesShareACacheDirectory(t *testing.T) {
	o := small(func(o *samplepool.Options) { o.Format = "parquet" })
	dir := write(t, o)
	p, err := samplepool.New(o)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "masked_hosts.yaml"),
		[]byte("excluded_hosts: {"+p.Machines()[0].Name+": broken}"), 0o600))
	server := buckettest.Start(t)
	options := server.Bucket(t)
	putMonths(t, buckettest.Open(t, options), dir)
	proxy := buckettest.NewProxy(t, server, false)
	options.Endpoint = proxy.Endpoint
	cache := t.TempDir()
	source := func(o bucket.Options) backend.DataSourceInstanceSettings {
		s := bucketSource(t, 1, o, map[string]string{"bucketAccessKey": o.AccessKey, "bucketSecretKey": o.SecretKey})
		var jsonData map[string]any
		require.NoError(t, json.Unmarshal(s.JSONData, &jsonData))
		jsonData["cacheDir"] = cache
		s.JSONData, err = json.Marshal(jsonData)
		require.NoError(t, err)
		return s
	}
	const query = `{"queryType": "allocation", "view": "summary", "groupBy": ["machine"]}`
	want := figures(t, ask(t, start(t).Source(saved(t, 9, map[string]any{"snapshotDir": dir})), o.Start, o.End, query)[0])
	one := start(t, "GF_PLUGIN_ALLOWED_BUCKETS=*").Source(source(options))
	require.Equal(t, want, figures(t, ask(t, one, o.Start, o.End, query)[0]))

	proxy.Set(func(w http.ResponseWriter, r *http.Request, s http.Handler) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "masked_hosts.yaml") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.ServeHTTP(w, r)
	})
	killed := start(t, "GF_PLUGIN_ALLOWED_BUCKETS=*")
	require.ErrorContains(t, ask(t, killed.Source(source(options)), o.Start, o.End, query)[0].Error, "masked_hosts.yaml")
	require.Equal(t, want, figures(t, ask(t, one, o.Start, o.End, query)[0]))
	killed.Close()
	proxy.Set(buckettest.Gone)
	other := options
	other.SecretKey = "wrong"
	stranger := start(t, "GF_PLUGIN_ALLOWED_BUCKETS=*").Source(source(other))
	require.Error(t, ask(t, stranger, o.Start, o.End, query)[0].Error)
	require.Equal(t, want, figures(t, ask(t, one, o.Start, o.End, query)[0]))
}
