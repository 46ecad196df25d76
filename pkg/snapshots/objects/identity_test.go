package objects_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/objects"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// Objects and folders whose names begin with _ or . are unfinished work of other programs, at any level.
func TestHiddenObjects(t *testing.T) {
	b := buckettest.Start(t).Open(t)
	data, err := parquet.Encode(parquet.Schema, snapshotRows(20))
	require.NoError(t, err)
	day := "date=" + timestampOf(20)[:len("2026-07-01")]
	for _, key := range []string{day + "/a.parquet", day + "/_b.parquet", day + "/.c.parquet", day + "/_tmp/d.parquet",
		day + "/e/.f/g.parquet", "new/" + day + "/_h.parquet", "_new/" + day + "/i.parquet"} {
		_, err = b.Put(t.Context(), key, data, "")
		require.NoError(t, err)
	}
	state, err := objects.Open(b, localtime.UTC).Look(t.Context())
	require.NoError(t, err)
	parts, err := state.Parts(t.Context())
	require.NoError(t, err)
	require.Len(t, parts, 1)
	require.Equal(t, day+"/a.parquet", parts[0].Name)
}

// A day in a bucket is identified by its object's ETag: equal objects anywhere are the same day, and an edit of which
// sizes and statistics in the footer show nothing is another one.
func TestDayIsItsETag(t *testing.T) {
	server := buckettest.Start(t)
	var rows [][]any
	for n := 8; n < 40; n++ { // from midnight on
		rows = append(rows, snapshotRows(n)...)
	}
	edited := slices.Clone(rows) // two rows swap their users: of the same bytes, with the same smallest and largest values
	user := slices.IndexFunc(parquet.Schema, func(f parquet.Field) bool { return f.Name == "RemoteOwner" })
	other := slices.IndexFunc(rows, func(row []any) bool { return row[user] != rows[0][user] })
	require.Positive(t, other)
	edited[0], edited[other] = slices.Clone(rows[0]), slices.Clone(rows[other])
	edited[0][user], edited[other][user] = rows[other][user], rows[0][user]

	date := pool.DayOf(timeOf(20).UnixMicro())
	put := func(b *bucket.Bucket, rows [][]any) {
		t.Helper()
		data, err := parquet.Encode(parquet.Schema, rows)
		require.NoError(t, err)
		_, err = b.Put(t.Context(), "date="+timestampOf(20)[:len("2026-07-01")]+"/x.parquet", data, "")
		require.NoError(t, err)
	}
	identify := func(source snapshots.Source) (identity string, key snapshots.Key) {
		t.Helper()
		state, err := source.Look(t.Context())
		require.NoError(t, err)
		key, err = state.Key(t.Context(), date)
		require.NoError(t, err)
		return state.Identity(key), key
	}
	b := server.Open(t)
	put(b, rows)
	source := objects.Open(b, localtime.UTC)
	want, key := identify(source)
	same, _ := identify(objects.Open(b, localtime.UTC))
	require.Equal(t, want, same, "of another process")
	elsewhere := server.Open(t)
	put(elsewhere, rows)
	same, _ = identify(objects.Open(elsewhere, localtime.UTC))
	require.Equal(t, want, same, "an equal object in another bucket")

	put(b, edited)
	later := objects.Open(b, localtime.UTC)
	for name, s := range map[string]snapshots.Source{"running": source, "started later": later} {
		changed, _ := identify(s)
		require.NotEqual(t, want, changed, name)
		state, err := s.Look(t.Context())
		require.NoError(t, err)
		holds, err := state.Holds(t.Context(), date, snapshots.Known{Key: key})
		require.NoError(t, err)
		require.False(t, holds, name)
	}
}

// Files from elsewhere next to the copies are not used, because a planted list could exclude every machine.
func TestMirrorHoldsCopiesOnly(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	b := buckettest.Open(t, o)
	_, err := b.Put(t.Context(), "chtc_owned", []byte("m1\n"), "")
	require.NoError(t, err)
	cache := t.TempDir()
	for range 2 { // processes
		m, err := objects.OpenMirror(b, o, cache, "chtc_owned", "masked_hosts.yaml")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(m.Path()), "masked_hosts.yaml"),
			[]byte("excluded_hosts: {m: x}"), 0o600))
		require.NoError(t, m.Refresh(t.Context()))
		require.NoFileExists(t, filepath.Join(m.Path(), "masked_hosts.yaml"))
		text, err := os.ReadFile(filepath.Join(m.Path(), "chtc_owned"))
		require.NoError(t, err)
		require.Equal(t, "m1\n", string(text))
		require.NoError(t, m.Close())
	}
}

// A cache directory that cannot be used costs copies in each process, and no answer.
func TestMirrorWithoutItsDirectory(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	b := buckettest.Open(t, o)
	_, err := b.Put(t.Context(), "chtc_owned", []byte("m1\n"), "")
	require.NoError(t, err)
	cache := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(cache, nil, 0o600))
	m, err := objects.OpenMirror(b, o, cache, "chtc_owned")
	require.NoError(t, err)
	require.NoError(t, m.Refresh(t.Context()))
	require.FileExists(t, filepath.Join(m.Path(), "chtc_owned"))
	require.NoError(t, m.Close())
	require.NoDirExists(t, m.Path())
}

// A folder of copies that another user made in a shared cache directory is not used: that user could change each file.
func TestMirrorOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder to another user")
	}
	o := buckettest.Start(t).Bucket(t)
	b := buckettest.Open(t, o)
	cache := t.TempDir()
	m, err := objects.OpenMirror(b, o, cache, "masked_hosts.yaml")
	require.NoError(t, err)
	folder := filepath.Dir(m.Path())
	require.Equal(t, cache, filepath.Dir(folder))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "masked_hosts.yaml"), []byte("excluded_hosts: {m: x}"), 0o600))
	require.NoError(t, os.Chown(folder, 12345, 12345))
	m, err = objects.OpenMirror(b, o, cache, "masked_hosts.yaml")
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	require.NotEqual(t, folder, filepath.Dir(m.Path()))
	require.NoFileExists(t, filepath.Join(m.Path(), "masked_hosts.yaml"))
	require.NoError(t, m.Refresh(t.Context()))
	require.NoFileExists(t, filepath.Join(m.Path(), "masked_hosts.yaml"))
}

// Two processes share a cache directory. The second one cannot fetch a list at this moment, or ends: the first one
// keeps its list.
func TestMirrorsShareACacheDirectory(t *testing.T) {
	server := buckettest.Start(t)
	o := server.Bucket(t)
	_, err := buckettest.Open(t, o).Put(t.Context(), "masked_hosts.yaml", []byte("excluded_hosts: {m: broken}\n"), "")
	require.NoError(t, err)
	proxy := buckettest.NewProxy(t, server, false)
	o.Endpoint = proxy.Endpoint
	b, cache := buckettest.Open(t, o), t.TempDir()
	one, err := objects.OpenMirror(b, o, cache, "masked_hosts.yaml")
	require.NoError(t, err)
	two, err := objects.OpenMirror(b, o, cache, "masked_hosts.yaml")
	require.NoError(t, err)
	require.NoError(t, one.Refresh(t.Context()))
	proxy.Set(func(w http.ResponseWriter, r *http.Request, s http.Handler) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "masked_hosts.yaml") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.ServeHTTP(w, r)
	})
	require.Error(t, two.Refresh(t.Context()))
	require.NoError(t, two.Close())
	list, err := os.ReadFile(filepath.Join(one.Path(), "masked_hosts.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(list), "broken")
}

// What one data source may read is not for one with another secret, CA, or organization.
func TestMirrorsOfOtherKeys(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	b, cache := buckettest.Open(t, o), t.TempDir()
	folders := map[string]bool{}
	for _, change := range []func(){func() {}, func() { o.SecretKey = "wrong" }, func() { o.CA = "another" },
		func() { o.Organization = "2" }, func() { o.AccessKey = "another" }, func() { o.Endpoint = "https://elsewhere" }} {
		change()
		m, err := objects.OpenMirror(b, o, cache)
		require.NoError(t, err)
		folders[filepath.Dir(m.Path())] = true
		require.NotContains(t, m.Path(), o.SecretKey)
	}
	require.Len(t, folders, 6)
}

// The folder of a killed process goes, with what it has begun to copy. Nobody holds its lock any more.
func TestLeftoversOfMirrors(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	b, cache := buckettest.Open(t, o), t.TempDir()
	running, err := objects.OpenMirror(b, o, cache)
	require.NoError(t, err)
	killed := filepath.Join(filepath.Dir(running.Path()), "view-killed")
	require.NoError(t, os.Mkdir(killed, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(killed, ".copy-1"), []byte("half"), 0o600))
	_, err = objects.OpenMirror(b, o, cache)
	require.NoError(t, err)
	require.NoDirExists(t, killed)
	require.DirExists(t, running.Path())
}
