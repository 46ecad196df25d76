package jobs_test

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/segcache"
)

// sharing is a source as a process on another machine has it that has just been started.
func sharing(t *testing.T, b *bucket.Bucket, source jobs.Source, key string, now func() time.Time) jobs.Source {
	t.Helper()
	s := jobs.NewCache(megabyte, now).Source(source, key, nil,
		jobs.Sharing{Through: segcache.NewShared(b), Source: "of " + key})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// A source that is shared is a source.
func TestSharedSource(t *testing.T) {
	b := buckettest.Start(t).Open(t)
	n := 0
	jobstest.Run(t, func(t *testing.T, documents [][]byte) jobs.Source {
		n++
		return sharing(t, b, jobstest.NewMemory(documents...), fmt.Sprint(n), time.Now)
	})
}

// An answer to one process serves the others; it is requested again when a single process would have done so.
func TestFinishedDaysAreShared(t *testing.T) {
	d := newDisked(t)
	d.bucket = buckettest.Start(t).Open(t)
	testFinishedDays(t, d)
	objects, err := d.bucket.List(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, objects, 3)
	for i, kind := range []string{"epochads", "jobads", "machineads"} {
		require.Regexp(t, `^`+kind+`/4/2025-10-03-[0-9a-f]{32}$`, objects[i].Key)
	}
	_, asked := d.ask(t, d.memory, "another source")
	require.Equal(t, everything, asked)
}

// A process that has been running for long takes over what another one was told since, with late ads; its answers of
// before do not hold anymore.
func TestLateAdsAreTakenOver(t *testing.T) {
	d := newDisked(t)
	d.bucket = buckettest.Start(t).Open(t)
	wanted := []jobs.Wanted{{Job: "b", LastSeen: time.Date(2025, 10, 3, 11, 59, 0, 0, time.UTC)}}
	ask := func(s jobs.Source, ads int, asked ...string) jobs.Result {
		t.Helper()
		r, err := s.Ads(t.Context(), wanted)
		require.NoError(t, err)
		require.Empty(t, r.Notices)
		require.Len(t, r.Ads[0], ads)
		require.Equal(t, asked, d.memory.Asked())
		return r
	}
	running, other := d.started(t, d.memory, "k"), d.started(t, d.memory, "k")
	before := ask(running, 0, "b")
	ask(other, 0)
	d.memory.Add(history("b", d.t.Add(-48*time.Hour)))
	d.t = d.t.Add(6 * time.Hour)
	ask(other, 1, "b")
	require.False(t, before.Holds())
	ask(running, 1)
	require.True(t, ask(running, 1).Holds())
	d.t = d.t.Add(time.Hour)
	ask(running, 1)
}

// Of two answers the later one counts, in a process that has it and in the bucket: late ads are not lost to what
// another process was told before.
func TestOlderAdsAreNotTakenOver(t *testing.T) {
	d := newDisked(t)
	d.bucket = buckettest.Start(t).Open(t)
	wanted := []jobs.Wanted{{Job: "b", LastSeen: time.Date(2025, 10, 3, 11, 59, 0, 0, time.UTC)}}
	ask := func(s jobs.Source, ads int) {
		t.Helper()
		r, err := s.Ads(t.Context(), wanted)
		require.NoError(t, err)
		require.Len(t, r.Ads[0], ads)
	}
	ask(d.started(t, d.memory, "k"), 0)
	objects, err := d.bucket.List(t.Context(), "jobads/")
	require.NoError(t, err)
	older, _, err := d.bucket.Get(t.Context(), objects[0].Key)
	require.NoError(t, err)
	d.memory.Add(history("b", d.t.Add(-48*time.Hour)))
	d.t = d.t.Add(6 * time.Hour)
	running := d.started(t, d.memory, "k")
	ask(running, 1)
	newer, _, err := d.bucket.Get(t.Context(), objects[0].Key)
	require.NoError(t, err)
	require.NotEqual(t, older, newer)

	// a slower process puts what it was told before, and the source fails when it is asked again
	_, err = d.bucket.Put(t.Context(), objects[0].Key, older, "")
	require.NoError(t, err)
	wanted[0].LastSeen = time.Date(2025, 10, 3, 23, 0, 0, 0, time.UTC) // a later run: what is known is not final
	d.t = d.t.Add(24 * time.Hour)
	d.memory.Err = pool.SourceError("gone")
	ask(running, 1)
}

// Several processes that ask for different jobs of a day at the same time: what each was told is there for all. Their
// requests meet in any order, but one by one: while it replaces an object, the server may answer with the old content
// and the new ETag.
func TestNobodysAdsAreLost(t *testing.T) {
	d := newDisked(t)
	server := buckettest.Start(t)
	proxy := buckettest.NewProxy(t, server, false)
	var one sync.Mutex
	proxy.Set(func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		one.Lock()
		defer one.Unlock()
		server.ServeHTTP(w, r)
	})
	o := server.Bucket(t)
	o.Endpoint = proxy.Endpoint
	d.bucket = buckettest.Open(t, o)
	seen := time.Date(2025, 10, 3, 11, 59, 0, 0, time.UTC)
	var wanted []jobs.Wanted
	var wait sync.WaitGroup
	for n := range 3 {
		wanted = append(wanted, jobs.Wanted{Job: fmt.Sprint("job", n), LastSeen: seen})
		s, own := d.started(t, d.memory, "k"), wanted[n:]
		wait.Go(func() {
			if _, err := s.Ads(t.Context(), own); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	require.Len(t, d.memory.Asked(), 3)
	_, err := d.started(t, d.memory, "k").Ads(t.Context(), wanted)
	require.NoError(t, err)
	require.Empty(t, d.memory.Asked())
}

// Objects that are damaged, foreign or of another version are ignored, named in a notice, and left unchanged. A bucket
// that cannot be reached costs a notice.
func TestSharedAdsNotBelieved(t *testing.T) {
	server := buckettest.Start(t)
	seen := time.Date(2025, 10, 3, 11, 59, 0, 0, time.UTC)
	wanted := []jobs.Wanted{{Job: "a", LastSeen: seen}}
	for name, harm := range map[string]func([]byte) []byte{
		"foreign": func([]byte) []byte { return []byte("something else") },
		"cut":     func(data []byte) []byte { return data[:len(data)-3] },
		"a bit":   func(data []byte) []byte { data[len(data)-6] ^= 8; return data },
		"version": func(data []byte) []byte { return bytes.Replace(data, []byte(" 4\n"), []byte(" 3\n"), 1) },
	} {
		d := newDisked(t)
		d.bucket = server.Open(t)
		_, err := d.started(t, d.memory, "k").Ads(t.Context(), wanted)
		require.NoError(t, err)
		objects, err := d.bucket.List(t.Context(), "jobads/")
		require.NoError(t, err)
		require.Len(t, objects, 1)
		data, _, err := d.bucket.Get(t.Context(), objects[0].Key)
		require.NoError(t, err)
		harmed := harm(bytes.Clone(data))
		_, err = d.bucket.Put(t.Context(), objects[0].Key, harmed, "")
		require.NoError(t, err)
		d.memory.Asked()
		r, err := d.started(t, d.memory, "k").Ads(t.Context(), wanted)
		require.NoError(t, err)
		require.Len(t, r.Ads[0], 1)
		require.Equal(t, []string{"a"}, d.memory.Asked(), name)
		require.Len(t, r.Notices, 1, name)
		require.Contains(t, r.Notices[0], objects[0].Key+" is invalid")
		left, _, err := d.bucket.Get(t.Context(), objects[0].Key)
		require.NoError(t, err)
		require.Equal(t, harmed, left, name)
	}
	proxy := buckettest.NewProxy(t, server, false)
	o := server.Bucket(t)
	o.Endpoint = proxy.Endpoint
	proxy.Set(buckettest.Gone)
	d := newDisked(t)
	d.bucket = buckettest.Open(t, o)
	r, err := d.started(t, d.memory, "k").Ads(t.Context(), wanted)
	require.NoError(t, err)
	require.Len(t, r.Ads[0], 1)
	require.Len(t, r.Notices, 1)
	require.Contains(t, r.Notices[0], o.URL+" cannot be reached (since ")
}
