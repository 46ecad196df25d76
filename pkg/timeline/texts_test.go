package timeline

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
)

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
