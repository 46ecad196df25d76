package timeline

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/segcache"
)

func rowsAt(times ...pool.Micros) (rows []snapshotstest.Row) {
	for _, at := range times {
		rows = append(rows, snapshotstest.Row{"Name": "slot1@m", "Machine": "m", "AssignedGPUs": "GPU-0",
			"State":     "Unclaimed",
			"timestamp": pool.Time(at).Format("2006-01-02 15:04:05.000000")})
	}
	return rows
}

// every returns n times from a time onward.
func every(step, from pool.Micros, n int) (times []pool.Micros) {
	for i := range n {
		times = append(times, from+pool.Micros(i)*step)
	}
	return times
}

// A distance of exactly the limit is not a gap, one that is a microsecond longer is (methodology section 1: max(2.5 ×
// cadence, 20 min)).
func TestGapOfExactlyTheLimit(t *testing.T) {
	for _, c := range []struct{ cadence, limit pool.Micros }{
		{15 * pool.Minute, 37*pool.Minute + 30*pool.Second}, {10 * pool.Minute, 25 * pool.Minute},
		{8 * pool.Minute, 20 * pool.Minute}, {5 * pool.Minute, 20 * pool.Minute},
	} {
		times := every(c.cadence, start, 10)
		times = append(times, every(c.cadence, times[9]+c.limit, 10)...)
		times = append(times, every(c.cadence, times[19]+c.limit+1, 10)...)
		dir := t.TempDir()
		snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: rowsAt(times...)})
		tl := open(t, dir, "UTC", "")
		v, err := tl.Load(t.Context(), start, times[len(times)-1])
		require.NoError(t, err)
		require.NoError(t, tl.Close())
		require.Equal(t, []Gap{{times[19], times[20]}}, v.Gaps(pool.Window{From: start, To: times[len(times)-1]}))
	}
}

// A day with few snapshots has the cadence of the day before, even if only the later day is requested; and 15
// minutes without such a day.
func TestCadenceLooksBack(t *testing.T) {
	next := start + pool.Day
	few := every(9*pool.Minute, next+12*pool.Hour, 8) // 7 distances
	for _, c := range []struct {
		before []pool.Micros
		want   pool.Micros
	}{
		{every(5*pool.Minute, start, 288), 5 * pool.Minute},
		{every(5*pool.Minute, start, 9), 5 * pool.Minute},
		{every(5*pool.Minute, start, 8), 15 * pool.Minute},
		{nil, 15 * pool.Minute},
		{every(5*pool.Minute, start-pool.Day, 288), 15 * pool.Minute},
	} {
		dir := t.TempDir()
		snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: rowsAt(append(c.before, few...)...)})
		tl := open(t, dir, "UTC", "")
		v, err := tl.Load(t.Context(), few[0], few[len(few)-1])
		require.NoError(t, err)
		require.NoError(t, tl.Close())
		require.Equal(t, c.want, v.Cadence(pool.DayOf(next)), "%d snapshots before", len(c.before))
	}
}

// month is 28 days of a machine with 30 GPUs: a file with about 4,000 pages.
func month() (rows []snapshotstest.Row) {
	for i := range 28 * 96 {
		at := pool.Time(start + pool.Micros(i)*15*pool.Minute).Format("2006-01-02 15:04:05.000000")
		for g := range 30 {
			rows = append(rows, snapshotstest.Row{
				"Name": "slot1@machine-with-a-name.example.org", "Machine": "machine-with-a-name.example.org",
				"AssignedGPUs": fmt.Sprintf("GPU-%08d", g), "State": "Unclaimed", "GPUs_DeviceName": "NVIDIA H200", "timestamp": at,
			})
		}
	}
	return rows
}

// A damaged page loses only the days whose rows it contains: a notice names the file and the days, the other days
// answer, and reading ahead continues with older days. A window without any other day is an error. This includes the
// pages that searches read first, such as the one in the middle.
func TestDamagedPage(t *testing.T) {
	whole := t.TempDir()
	snapshotstest.Write(t, whole, map[string][]snapshotstest.Row{september: month()})
	content, err := os.ReadFile(filepath.Join(whole, september))
	require.NoError(t, err)
	const page = 4096
	pages := len(content) / page
	for _, damaged := range []int{40, pages / 4, pages/2 - 1, pages / 2, pages/2 + 37, pages * 3 / 4, pages - 40} {
		broken := slices.Clone(content)
		for i := damaged * page; i < (damaged+1)*page; i++ {
			broken[i] = 0xff
		}
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, september), broken, 0o600))
		requireOtherDays(t, dir, fmt.Sprintf("page %d of %d", damaged, pages))
	}
}

func requireOtherDays(t *testing.T, dir, what string) {
	t.Helper()
	tl := open(t, dir, "UTC", "")
	defer tl.Close()
	v, err := tl.Load(t.Context(), start, start+28*pool.Day-1)
	require.NoError(t, err, what)
	require.GreaterOrEqual(t, len(v.Days), 26, "%s: it holds rows of one day, or of two with their margins", what)
	require.Less(t, len(v.Days), 28, what)
	for _, d := range v.Days {
		require.Len(t, d.Times, 96, what)
	}
	warnings := slices.DeleteFunc(slices.Clone(v.Notices), func(n Notice) bool { return !n.Warning })
	require.Len(t, warnings, 1, what)
	require.Contains(t, warnings[0].Text, september+" is damaged or truncated")
	left := int32(0)
	for date := pool.DayOf(start); date < pool.DayOf(start)+28; date++ {
		if !slices.ContainsFunc(v.Days, func(d *Day) bool { return d.Date == date }) {
			left = date
			require.Contains(t, warnings[0].Text,
				pool.Time(start+pool.Micros(date-pool.DayOf(start))*pool.Day).Format("2006-01-"))
		}
	}
	_, err = tl.Load(t.Context(), pool.Micros(left)*pool.Day, pool.Micros(left+1)*pool.Day-1)
	require.ErrorContains(t, err, september)
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))

	ahead := open(t, dir, "UTC", "")
	defer ahead.Close()
	require.NoError(t, ahead.Warm(t.Context()))
	again, err := ahead.Load(t.Context(), start, start+28*pool.Day-1)
	require.NoError(t, err)
	require.GreaterOrEqual(t, int(again.Work.Kept), len(again.Days), "%s: what can be read was read ahead", what)
	require.Zero(t, again.Work.Read, what)
}

func TestRangesOfDates(t *testing.T) {
	d := pool.DayOf(start)
	require.Equal(t, "2025-09-01 to 2025-09-03, 2025-09-05, 2025-09-07 to 2025-09-08",
		ranges([]int32{d, d + 1, d + 2, d + 4, d + 6, d + 7}))
}

// Timestamps with a T between date and time are the same times, also in files that hold both forms, where texts are not
// in the order of time.
func TestTimestampsWithT(t *testing.T) {
	zone := "America/Chicago"
	location, err := time.LoadLocation(zone)
	require.NoError(t, err)
	begin := time.Date(2025, 9, 2, 0, 0, 0, 0, time.UTC)
	for name, form := range map[string]func(i int) string{
		"all": func(int) string { return "2006-01-02T15:04:05.000000" },
		"mixed": func(i int) string {
			return []string{"2006-01-02 15:04:05.000000",
				"2006-01-02T15:04:05"}[i/5%2]
		},
		"mixed snapshots": func(i int) string { return []string{"2006-01-02 15:04:05.000000", "2006-01-02T15:04:05"}[i%2] },
		"changed for ever": func(i int) string {
			return []string{"2006-01-02 15:04:05.000000",
				"2006-01-02T15:04:05"}[i/400]
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var rows []snapshotstest.Row
			for i := range 768 {
				at := begin.Add(time.Duration(i/2) * 15 * time.Minute).In(location)
				rows = append(rows, snapshotstest.Row{
					"Name": "slot1@m", "Machine": "m", "AssignedGPUs": []string{"GPU-0", "GPU-1"}[i%2], "State": "Unclaimed",
					"timestamp": at.Format(form(i)),
				})
			}
			snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: rows})
			tl := open(t, dir, zone, "")
			defer tl.Close()
			v, err := tl.Load(t.Context(), begin.UnixMicro(), begin.Add(96*time.Hour).UnixMicro())
			require.NoError(t, err)
			require.Len(t, v.Times, 384)
			for i, at := range v.Times {
				require.Equal(t, begin.UnixMicro()+pool.Micros(i)*15*pool.Minute, at)
			}
			require.Empty(t, v.Notices)
			for _, d := range v.Days {
				require.Equal(t, 2, d.GPUs())
				require.Equal(t, 2, len(d.first))
			}
		})
	}
}

// Texts of users are kept up to a length, and stay different. A notice counts them, also of a day from disk.
func TestLongTexts(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	rows := quarterly(0, 96*2)
	users := map[string]bool{}
	for i, r := range rows {
		r.Row["State"], r.Row["RemoteOwner"] = "Claimed", strings.Repeat("x", 20_000)+string(rune('a'+i%8))
		users[r.Row["RemoteOwner"].(string)] = true
	}
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(rows)})
	for range 2 {
		tl := open(t, dir, "UTC", cache)
		v := load(t, tl, rows)
		seen := map[Symbol]bool{}
		for _, d := range v.Days {
			for _, r := range d.rows {
				seen[r.User] = true
			}
		}
		require.Len(t, seen, 1+len(users), "and none")
		require.Less(t, v.Names.Bytes(), int64(len(users)*(pool.MostText+textBytes)+10_000))
		require.Len(t, v.Notices, 2)
		require.Equal(t, "2025-09-01: 8 different rows have texts of more than 1024 bytes: cut", v.Notices[0].Text)
		require.NoError(t, tl.Close())
	}
}

// If any byte of a segment's file is changed, or if the file is cut anywhere, the answers stay the same, and the file
// is rebuilt.
func TestDamageAnywhere(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	rows := quarterly(0, 300)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(rows)})
	tl := open(t, dir, "UTC", cache)
	load(t, tl, rows)
	require.NoError(t, tl.Close())
	files, err := filepath.Glob(filepath.Join(cache, segcache.Folder, "*-2025-09-02.segment"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	whole, err := os.ReadFile(files[0])
	require.NoError(t, err)
	random, want, made := rand.New(rand.NewPCG(3, 4)), ask(rows), 0
	// The two lines before it say of which state of the file it was made, as far as that is certain.
	body := func(segment []byte) []byte { return bytes.SplitN(segment, []byte("\n"), 3)[2] }
	check := func(content []byte, what string) {
		require.NoError(t, os.WriteFile(files[0], content, 0o600))
		tl := open(t, dir, "UTC", cache)
		defer tl.Close()
		v := load(t, tl, rows)
		requireEqual(t, want, v)
		if v.Work.Read > 1 { // the current day, and the damaged one
			again, err := os.ReadFile(files[0])
			require.NoError(t, err)
			require.Equal(t, body(whole), body(again), what)
			made++
		}
	}
	check(whole, "whole")
	const ranges = 20
	for from := 0; from < len(whole); from += len(whole)/ranges + 1 { // some byte of each range
		at := min(len(whole)-1, from+random.IntN(len(whole)/ranges+1))
		content := append([]byte{}, whole...)
		content[at] ^= byte(1 + random.IntN(255))
		check(content, fmt.Sprint("byte ", at))
		check(whole[:at], fmt.Sprint("cut at ", at))
	}
	require.Greater(t, made, ranges, "most was noticed; what was not is a description that says the same")
}

// Bytes that no checksum guards are a day whose jobs can be read, or damaged.
func TestDecodingOfDamage(t *testing.T) {
	dir := t.TempDir()
	rows := quarterly(0, 200)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(rows)})
	tl := open(t, dir, "UTC", "")
	defer tl.Close()
	random, read := rand.New(rand.NewPCG(5, 6)), 0
	for _, d := range load(t, tl, rows).Days {
		whole := encode(d, tl.names)
		for at := range whole {
			other := append([]byte{}, whole...)
			other[at] ^= byte(1 + random.IntN(255))
			lacking := append(whole[:at:at], whole[min(len(whole), at+1+random.IntN(9)):]...)
			for _, b := range [][]byte{other, whole[:at], lacking} {
				damaged, err := decode(d.Date, b, NewNames())
				if err != nil {
					require.ErrorIs(t, err, errDamaged)
					continue
				}
				require.Len(t, damaged.Jobs(), damaged.Statuses())
				read++
			}
		}
	}
	require.Positive(t, read)
}
