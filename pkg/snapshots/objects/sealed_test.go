package objects_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/objects"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

const perDay = 96

// putDay puts rows as the object of a date.
func putDay(t testing.TB, b *bucket.Bucket, date string, rows [][]any) {
	t.Helper()
	data, err := parquet.Encode(parquet.Schema, rows)
	require.NoError(t, err)
	_, err = b.Put(t.Context(), "date="+date+"/snapshots.parquet", data, "")
	require.NoError(t, err)
}

// dayRows are the rows of a whole day, the n-th after the first one.
func dayRows(n int) (rows [][]any, date string) {
	first := 8 + n*perDay // snapshot 8 is the first one of 2026-07-02
	for i := first; i < first+perDay; i++ {
		rows = append(rows, snapshotRows(i)...)
	}
	return rows, timestampOf(first)[:len("2026-07-01")]
}

// watched counts the objects that are read through a proxy.
type watched struct {
	mu   sync.Mutex
	read map[string]bool
}

func (w *watched) fault(to http.ResponseWriter, r *http.Request, server http.Handler) {
	if strings.HasSuffix(r.URL.Path, ".parquet") {
		w.mu.Lock()
		w.read[strings.Split(r.URL.Path, "/")[2]] = true
		w.mu.Unlock()
	}
	server.ServeHTTP(to, r)
}

func (w *watched) take() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.read)
	w.read = map[string]bool{}
	return n
}

func lookAt(t testing.TB, source snapshots.Source) snapshots.State {
	t.Helper()
	state, err := source.Look(t.Context())
	require.NoError(t, err)
	return state
}

// A day is identified without reading any of it, and read without reading any of days far away. Only Parts opens
// all files.
func TestOnlyDaysAskedForAreRead(t *testing.T) {
	server := buckettest.Start(t)
	o := server.Bucket(t)
	b := buckettest.Open(t, o)
	const days = 12
	for n := range days {
		rows, date := dayRows(n)
		putDay(t, b, date, rows)
	}
	proxy := buckettest.NewProxy(t, server, false)
	seen := &watched{read: map[string]bool{}}
	proxy.Set(seen.fault)
	o.Endpoint = proxy.Endpoint
	chicago, err := localtime.Parse([]byte(`"America/Chicago"`))
	require.NoError(t, err)
	for _, c := range []struct {
		zone  *localtime.Zone
		first int // snapshot of the UTC day
		read  int // objects: the day's own, and those within an hour of it
	}{{localtime.UTC, 8 + 3*perDay, 3}, {chicago, 8 + 3*perDay - 5*4, 2}} {
		source := objects.Open(buckettest.Open(t, o), c.zone)
		state := lookAt(t, source)
		require.Equal(t, 1, seen.take(), "the newest says how far the rows reach")
		require.Len(t, state.Dates(), days+map[bool]int{true: 2, false: 3}[c.zone == localtime.UTC])
		date := pool.DayOf(begin.AddDate(0, 0, 4).UnixMicro())
		require.True(t, state.Finished(date))
		key, err := state.Key(t.Context(), date)
		require.NoError(t, err)
		require.NotEmpty(t, state.Identity(key))
		holds, err := state.Holds(t.Context(), date, snapshots.Known{Key: key})
		require.NoError(t, err)
		require.True(t, holds)
		require.Zero(t, seen.take())
		var all tape
		reading, err := state.Rows(t.Context(), date, snapshots.Known{}, &all)
		require.NoError(t, err)
		require.Equal(t, key.Content, reading.Key.Content)
		require.Equal(t, c.read, seen.take())
		require.Len(t, all.times, perDay)
		parts, err := state.Parts(t.Context())
		require.NoError(t, err)
		require.Len(t, parts, days)
		for n, p := range parts {
			require.NoError(t, p.Err)
			require.EqualValues(t, perDay*3, p.Rows)
			require.Equal(t, fmt.Sprintf("date=2026-07-%02d/snapshots.parquet", n+2), p.Name)
		}
		require.Equal(t, days-c.read-1, seen.take())
	}
}

// Rows under the key of another date or time, rows without a time, and objects that are damaged: the days that they
// could belong to cannot be read, with an error that names the object, and the others can.
func TestMistakenKeys(t *testing.T) {
	server := buckettest.Start(t)
	rows, date := dayRows(2)
	other, _ := dayRows(7)
	undated := snapshotRows(8)
	for _, row := range undated {
		row[slices.IndexFunc(parquet.Schema, func(f parquet.Field) bool { return f.Name == "timestamp" })] = nil
	}
	snapshot := timeOf(8 + 2*perDay + 5)
	encode := func(rows [][]any) []byte {
		data, err := parquet.Encode(parquet.Schema, rows)
		require.NoError(t, err)
		return data
	}
	day := "date=" + date + "/snapshots.parquet"
	single := "new/date=" + date + "/" + snapshot.Format("20060102T150405.000000Z") +
		snapshot.Format("-20060102T150405.000000") + ".parquet"
	for name, c := range map[string]struct {
		key  string
		data []byte
		want string
	}{
		"another day":         {day, encode(other), "it has a row of 2026-07-09 "},
		"a row more":          {day, encode(append(append([][]any{}, rows...), other[0])), "it has a row of 2026-07-09 "},
		"the day before":      {day, encode(append(snapshotRows(7+2*perDay), rows...)), "it has a row of 2026-07-03 23:45"},
		"no time":             {day, encode(undated), "none of its rows has a readable timestamp"},
		"damaged":             {day, encode(rows)[:900], "damaged"},
		"another snapshot":    {single, encode(other[:3]), "it has a row of 2026-07-09 "},
		"no Parquet at all":   {day, []byte("this is something else altogether"), "not a Parquet file"},
		"one snapshot's half": {single, encode(snapshotRows(8 + 2*perDay + 5))[:300], "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			b := server.Open(t)
			for n := range 6 {
				if rows, d := dayRows(n); d != date {
					putDay(t, b, d, rows)
				}
			}
			_, err := b.Put(t.Context(), c.key, c.data, "")
			require.NoError(t, err)
			state := lookAt(t, objects.Open(b, localtime.UTC))
			require.NoError(t, state.Err())
			wrong := pool.DayOf(snapshot.UnixMicro())
			require.Contains(t, state.Dates(), wrong)
			_, err = state.Rows(t.Context(), wrong, snapshots.Known{}, &tape{})
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, c.key)
			require.Equal(t, pool.FaultSource, pool.FaultOf(err))
			for _, far := range []int32{wrong - 2, wrong + 2} {
				var all tape
				_, err = state.Rows(t.Context(), far, snapshots.Known{}, &all)
				require.NoError(t, err)
				require.Len(t, all.times, perDay)
			}
			parts, err := state.Parts(t.Context())
			require.NoError(t, err)
			failed := 0
			for _, p := range parts {
				if p.Err != nil {
					require.ErrorContains(t, p.Err, c.want)
					failed++
				}
			}
			require.Equal(t, 1, failed)
		})
	}
}

// A day that is replaced or removed after a look is looked at again.
func TestDayChangesAfterALook(t *testing.T) {
	b := buckettest.Start(t).Open(t)
	for n := range 4 {
		rows, date := dayRows(n)
		putDay(t, b, date, rows)
	}
	rows, date := dayRows(1)
	at := pool.DayOf(timeOf(8 + perDay).UnixMicro())
	source := objects.Open(b, localtime.UTC)
	state := lookAt(t, source)
	key, err := state.Key(t.Context(), at)
	require.NoError(t, err)
	putDay(t, b, date, rows[:9])
	_, err = state.Rows(t.Context(), at, snapshots.Known{}, &tape{})
	require.ErrorIs(t, err, snapshots.ErrStale)
	now := lookAt(t, source)
	require.NotEqual(t, state, now)
	_, err = state.Rows(t.Context(), at, snapshots.Known{}, &tape{})
	require.ErrorIs(t, err, snapshots.ErrStale)
	holds, err := now.Holds(t.Context(), at, snapshots.Known{Key: key, State: state})
	require.NoError(t, err)
	require.False(t, holds)
	var all tape
	_, err = now.Rows(t.Context(), at, snapshots.Known{}, &all)
	require.NoError(t, err)
	require.Len(t, all.times, 3)

	require.NoError(t, b.Delete(t.Context(), "date="+date+"/snapshots.parquet"))
	gone := lookAt(t, source)
	_, err = now.Rows(t.Context(), at, snapshots.Known{}, &tape{})
	require.ErrorIs(t, err, snapshots.ErrStale)
	all = tape{}
	_, err = gone.Rows(t.Context(), at, snapshots.Known{}, &all)
	require.NoError(t, err)
	require.Empty(t, all.times)
}

// The current day is read on by the snapshots that are new, each once.
func TestRunningDayReadsOn(t *testing.T) {
	server := buckettest.Start(t)
	o := server.Bucket(t)
	b := buckettest.Open(t, o)
	proxy := buckettest.NewProxy(t, server, false)
	var mu sync.Mutex
	var read []string
	proxy.Set(func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		if strings.HasSuffix(r.URL.Path, ".parquet") {
			mu.Lock()
			read = append(read, r.URL.Path)
			mu.Unlock()
		}
		server.ServeHTTP(w, r)
	})
	o.Endpoint = proxy.Endpoint
	put := func(n int) {
		require.NoError(t, objects.PutSnapshot(t.Context(), b, timeOf(n), timestampOf(n), snapshotRows(n)))
	}
	rows, date := dayRows(0)
	putDay(t, b, date, rows)
	for n := range 10 {
		put(8 + perDay + n)
	}
	at := pool.DayOf(timeOf(8 + perDay).UnixMicro())
	source := objects.Open(buckettest.Open(t, o), localtime.UTC)
	state := lookAt(t, source)
	require.Empty(t, read, "the keys of snapshots say how far the rows reach")
	var all tape
	known, err := state.Rows(t.Context(), at, snapshots.Known{}, &all)
	require.NoError(t, err)
	require.Len(t, all.times, 10)
	require.Len(t, read, 11)
	put(8 + perDay + 10)
	all = tape{}
	grown, err := lookAt(t, source).Rows(t.Context(), at, snapshots.Known{Key: known.Key, State: state}, &all)
	require.NoError(t, err)
	require.Equal(t, []int64{timeOf(8 + perDay + 9).UnixMicro(), timeOf(8 + perDay + 10).UnixMicro()}, all.times)
	require.Len(t, read, 12)
	again, err := objects.Open(b, localtime.UTC).Look(t.Context())
	require.NoError(t, err)
	whole, err := again.Rows(t.Context(), at, snapshots.Known{}, &tape{})
	require.NoError(t, err)
	require.Equal(t, whole.Key, grown.Key)
}

// A month file and days of its month: the month counts where a day has no rows.
func TestMonthAndItsDays(t *testing.T) {
	b := buckettest.Start(t).Open(t)
	first, date := dayRows(0)
	second, _ := dayRows(1)
	data, err := parquet.Encode(parquet.Schema, append(append([][]any{}, first...), second...))
	require.NoError(t, err)
	_, err = b.Put(t.Context(), "gpu_state_2026-07.parquet", data, "")
	require.NoError(t, err)
	putDay(t, b, date, first[len(first)/2:]) // the collector went on in days at noon
	third, next := dayRows(2)
	putDay(t, b, next, third)
	state := lookAt(t, objects.Open(b, localtime.UTC))
	var times []time.Time
	for _, date := range state.Dates() {
		var all tape
		_, err := state.Rows(t.Context(), date, snapshots.Known{}, &all)
		require.NoError(t, err)
		for _, at := range all.times {
			times = append(times, pool.Time(at))
		}
	}
	require.Len(t, times, 3*perDay)
	for n, at := range times {
		require.Equal(t, timeOf(8+n).UnixMicro(), at.UnixMicro())
	}
}
