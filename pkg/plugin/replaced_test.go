package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/pool"
)

// A directory of snapshots can give way to another one while the data source is used.
func TestSnapshotDirReplaced(t *testing.T) {
	o := small()
	for how, replace := range map[string]func(path, before, after string) error{
		"by renaming": func(path, _, after string) error {
			if err := os.Rename(path, path+".old"); err != nil {
				return err
			}
			return os.Rename(after, path)
		},
		"by deleting": func(path, _, after string) error {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			return os.Rename(after, path)
		},
		"by turning a link": func(path, before, after string) error {
			if err := os.Rename(path, before+".there"); err != nil {
				return err
			}
			return os.Symlink(after, path)
		},
	} {
		t.Run(how, func(t *testing.T) {
			before, _ := writePool(t, o)
			after, _ := writePool(t, small(func(o *samplepool.Options) { o.Seed++ }))
			path := filepath.Join(t.TempDir(), "snapshots")
			require.NoError(t, os.Rename(before, path))
			settings := map[string]any{"snapshotDir": path, "cacheDir": t.TempDir(), "jobs": "sqlite"}
			d := open(t, o.End, settings)
			var queries []backend.DataQuery
			for i, model := range everyView() {
				queries = append(queries, queryOf(t, o, string(rune('A'+i)), model))
			}
			old := answered(t, d, queries...)

			stores, done, err := d.use(t.Context())
			require.NoError(t, err)
			require.NoError(t, replace(path, before, after))
			now := answered(t, d, queries...)
			require.Equal(t, answered(t, open(t, o.End, settings), queries...), now)
			for i := range queries {
				require.NotEqual(t, old[i], now[i], string(queries[i].JSON))
			}

			_, _, _, err = stores.Timeline.Range(context.Background())
			require.NotErrorIs(t, err, os.ErrClosed, "who uses the stores of before keeps them")
			done()
			_, _, _, err = stores.Timeline.Range(context.Background())
			require.ErrorIs(t, err, os.ErrClosed, "closed with the last one")
		})
	}
}

// A directory that is not there at times is reported, and answers when it is back.
func TestSnapshotDirAway(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	query := queryOf(t, o, "A", `{"queryType": "allocation"}`)
	before := answered(t, d, query)
	for range 2 {
		require.NoError(t, os.Rename(dir, dir+".away"))
		r, err := d.QueryData(t.Context(), &backend.QueryDataRequest{Queries: []backend.DataQuery{query}})
		require.NoError(t, err)
		require.ErrorContains(t, r.Responses["A"].Error, "does not exist")
		require.Equal(t, backend.ErrorSourceDownstream, r.Responses["A"].ErrorSource)
		require.Empty(t, openFiles(t, dir))
		require.NoError(t, os.Rename(dir+".away", dir))
		require.Equal(t, before, answered(t, d, query))
	}
}

// A link that is turned later is not followed out of the directories that the server allows.
func TestLinkTurnedOutOfAllowedDirectories(t *testing.T) {
	o := small()
	outside, _ := writePool(t, o)
	inside, _ := writePool(t, o)
	allowed := t.TempDir()
	require.NoError(t, os.Rename(inside, filepath.Join(allowed, "pool")))
	t.Setenv("GF_PLUGIN_ALLOWED_DIRS", allowed)
	link := filepath.Join(allowed, "snapshots")
	require.NoError(t, os.Symlink("pool", link))
	d := open(t, o.End, map[string]any{"snapshotDir": link})
	query := queryOf(t, o, "A", `{"queryType": "allocation"}`)
	answered(t, d, query)

	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink(outside, link))
	r, err := d.QueryData(t.Context(), &backend.QueryDataRequest{Queries: []backend.DataQuery{query}})
	require.NoError(t, err)
	require.ErrorContains(t, r.Responses["A"].Error, "outside the directories that this server allows")
	require.Empty(t, r.Responses["A"].Frames)
}

// Who empties the cache directory has it filled again.
func TestCacheDirEmptied(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	cache := filepath.Join(t.TempDir(), "cache")
	d := open(t, o.End, map[string]any{"snapshotDir": dir, "cacheDir": cache, "jobs": "sqlite"})
	query := queryOf(t, o, "A", `{"queryType": "evictions"}`)
	kept := func() []string {
		files, err := filepath.Glob(filepath.Join(cache, "*", "*"))
		require.NoError(t, err)
		return files
	}
	before := answered(t, d, query)
	files := kept()
	require.NotEmpty(t, files)
	for _, what := range []string{cache, filepath.Join(cache, "*")} {
		folders, err := filepath.Glob(what)
		require.NoError(t, err)
		require.Len(t, folders, 1)
		require.NoError(t, os.RemoveAll(folders[0]))
		require.Equal(t, before, answered(t, d, query))
		require.Equal(t, files, kept(), what)
	}
}

// Texts that take more than their share of memory are freed with the stores that hold them, once an hour at most.
func TestTextsThatNothingUsesAreFreed(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	query := queryOf(t, o, "A", `{"queryType": "userHours"}`)
	before := answered(t, d, query)
	use := func() *opened {
		s, done, err := d.use(t.Context())
		require.NoError(t, err)
		done()
		return s
	}
	first := use()
	for i := range 40_000 { // of jobs that are gone
		first.Timeline.Names.Symbol(fmt.Sprint(strings.Repeat("x", 500), i))
	}
	require.Same(t, first, use(), "not yet")
	first.since = first.since.Add(-2 * time.Hour)
	second := use()
	require.NotSame(t, first, second)
	require.Equal(t, before, answered(t, d, query))
	require.Positive(t, second.Timeline.Names.Bytes())
	require.Less(t, second.Timeline.Names.Bytes(), second.names)
	second.since = second.since.Add(-2 * time.Hour)
	require.Same(t, second, use())
}

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

// thing says how often it was closed.
type thing struct {
	closed int
	wrong  error
}

func (t *thing) Close() error {
	t.closed++
	return t.wrong
}

// users is the number of requests that use the open resource.
func (r *refCounted[T]) users() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil {
		return 0
	}
	return r.current.users
}

func newRefCounted() (s *refCounted[*thing], opened *[]*thing, said *[]error) {
	opened, said = &[]*thing{}, &[]error{}
	return &refCounted[*thing]{
		open: func(context.Context) (*thing, error) {
			*opened = append(*opened, &thing{})
			return (*opened)[len(*opened)-1], nil
		},
		failed: func(err error) { *said = append(*said, err) },
	}, opened, said
}

// An open resource serves all requests, and is closed once, with the last of them.
func TestSharedUntilTheLastRequest(t *testing.T) {
	s, opened, _ := newRefCounted()
	take := func() *reference[*thing] {
		taken, err := s.take(t.Context(), nil)
		require.NoError(t, err)
		return taken
	}
	first, second := take(), take()
	require.Same(t, first, second)
	s.leave(first)
	s.leave(second)
	require.Zero(t, (*opened)[0].closed, "the next request will ask for it")
	third := take()
	s.close()
	fourth := take()
	require.Same(t, third, fourth, "as long as somebody uses it")
	s.leave(third)
	require.Zero(t, (*opened)[0].closed)
	s.leave(fourth)
	require.Equal(t, 1, (*opened)[0].closed)
	_, err := s.take(t.Context(), nil)
	require.ErrorIs(t, err, errDisposed)
	s.close()
	require.Equal(t, 1, (*opened)[0].closed)
	require.Len(t, *opened, 1)
}

// A replaced resource is closed with its last request, no matter which request found the replacement; the other
// requests get the current one.
func TestReplacedIsClosed(t *testing.T) {
	s, opened, said := newRefCounted()
	old, err := s.take(t.Context(), nil)
	require.NoError(t, err)
	old.of.wrong = errors.New("a stale handle")
	now, err := s.take(t.Context(), old)
	require.NoError(t, err)
	require.NotSame(t, old, now)
	also, err := s.take(t.Context(), old)
	require.NoError(t, err)
	require.Same(t, now, also)
	require.Zero(t, old.of.closed)
	s.leave(old)
	require.Equal(t, 1, old.of.closed)
	require.Equal(t, []error{old.of.wrong}, *said)
	s.leave(now)
	s.leave(also)
	require.Zero(t, now.of.closed)
	s.close()
	require.Equal(t, 1, now.of.closed)
	require.Len(t, *opened, 2)
}

// What cannot be opened is tried again by the next request.
func TestOpenedAtTheNextRequest(t *testing.T) {
	s, _, _ := newRefCounted()
	works, wrong := s.open, errors.New("not mounted yet")
	s.open = func(context.Context) (*thing, error) { return nil, wrong }
	_, err := s.take(t.Context(), nil)
	require.ErrorIs(t, err, wrong)
	require.Nil(t, s.current)
	s.open = works
	taken, err := s.take(t.Context(), nil)
	require.NoError(t, err)
	require.Same(t, taken, s.current)
	require.Equal(t, 1, s.users())
}

// No request waits for a hanging file system beyond its deadline, and closing does not wait at all.
func TestOpeningHoldsNoLock(t *testing.T) {
	release, closed := make(chan struct{}), make(chan error, 1)
	stale := errors.New("a stale handle")
	s := &refCounted[*thing]{
		open: func(context.Context) (*thing, error) {
			<-release
			return &thing{wrong: stale}, nil
		},
		failed: func(err error) { closed <- err },
	}
	ctx, cancel := context.WithTimeout(t.Context(), testPause)
	defer cancel()
	_, err := s.take(ctx, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	s.close()
	close(release)
	require.ErrorIs(t, <-closed, stale, "opened for nobody")
	_, err = s.take(t.Context(), nil)
	require.ErrorIs(t, err, errDisposed)
}
