package objects_test

import (
	"slices"
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
