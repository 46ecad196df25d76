package timeline

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

const october = "gpu_state_2025-10.db"

// settle makes a month file look as if it had not been written to for days, and adds a later month, so that the file is
// opened as one that does not change.
func settle(t *testing.T, dir string, age time.Duration) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, october)); err != nil {
		snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{october: plain(quarterly(96*34, 96*34+1))})
	}
	then := time.Now().Add(-age)
	require.NoError(t, os.Chtimes(filepath.Join(dir, september), then, then))
}

// A month that had settled and changes after all is seen as it is: rows that are appended, edits, another file under
// its name, another file's bytes copied over it; and also when it has settled again.
func TestSettledMonthChanges(t *testing.T) {
	rows := quarterly(0, 400)
	edited := quarterly(0, 400)
	for _, r := range edited {
		r.Row["State"], r.Row["RemoteOwner"], r.Row["GlobalJobId"] = "Drained", nil, nil
	}
	one := quarterly(0, 400)
	one[301].Row["State"], one[301].Row["RemoteOwner"], one[301].Row["GlobalJobId"] = "Drained", nil, nil
	for name, c := range map[string]struct {
		before, after []drawnRow
		change        func(t *testing.T, dir string)
	}{
		"appended": {rows[:400], rows, func(t *testing.T, dir string) {
			db := snapshotstest.Open(t, dir, september, snapshotstest.Schema)
			snapshotstest.Append(t, db, snapshotstest.Schema, plain(rows[400:])...)
			require.NoError(t, db.Close())
		}},
		"edited": {rows, edited, func(t *testing.T, dir string) {
			db := snapshotstest.Open(t, dir, september, snapshotstest.Schema)
			_, err := db.Exec("UPDATE gpu_state SET State = 'Drained', RemoteOwner = NULL, GlobalJobId = NULL")
			require.NoError(t, err)
			require.NoError(t, db.Close())
		}},
		"one row edited": {rows, one, func(t *testing.T, dir string) {
			db := snapshotstest.Open(t, dir, september, snapshotstest.Schema)
			_, err := db.Exec("UPDATE gpu_state SET State = 'Drained', RemoteOwner = NULL, GlobalJobId = NULL WHERE rowid = 302")
			require.NoError(t, err)
			require.NoError(t, db.Close())
		}},
		"replaced": {rows, edited, func(t *testing.T, dir string) {
			other := t.TempDir()
			snapshotstest.Write(t, other, map[string][]snapshotstest.Row{september: plain(edited)})
			require.NoError(t, os.Rename(filepath.Join(other, september), filepath.Join(dir, september)))
		}},
		"copied over": {rows, edited, func(t *testing.T, dir string) {
			other := t.TempDir()
			snapshotstest.Write(t, other, map[string][]snapshotstest.Row{september: plain(edited)})
			from, err := os.Open(filepath.Join(other, september))
			require.NoError(t, err)
			defer from.Close()
			to, err := os.OpenFile(filepath.Join(dir, september), os.O_WRONLY|os.O_TRUNC, 0)
			require.NoError(t, err)
			_, err = io.Copy(to, from)
			require.NoError(t, err)
			require.NoError(t, to.Close())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(c.before)})
			settle(t, dir, 100*time.Hour)
			tl := open(t, dir, "UTC", t.TempDir())
			defer tl.Close()
			asked := rows[:len(rows)-8] // so that October is not looked at
			requireEqual(t, ask(c.before), load(t, tl, asked))
			c.change(t, dir)
			requireEqual(t, ask(c.after), load(t, tl, asked))
			settle(t, dir, 50*time.Hour)
			requireEqual(t, ask(c.after), load(t, tl, asked))
		})
	}
}

// Rows that come late to a day which a later month's file has finished are seen, from memory and after a restart.
func TestLateRowsOfFinishedDay(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	first, late, next := quarterly(96*29, 96*30-20), quarterly(96*30-20, 96*30), quarterly(96*30, 96*31)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(first), october: plain(next)})
	all := append(append(append([]drawnRow{}, first...), late...), next...)
	warm := open(t, dir, "UTC", cache)
	defer warm.Close()
	load(t, warm, all)
	db := snapshotstest.Open(t, dir, september, snapshotstest.Schema)
	snapshotstest.Append(t, db, snapshotstest.Schema, plain(late)...)
	require.NoError(t, db.Close())
	cold := open(t, dir, "UTC", cache)
	defer cold.Close()
	requireEqual(t, ask(all), load(t, cold, all))
	requireEqual(t, ask(all), load(t, warm, all))
}

// Between two looks a month gets an ordinary snapshot and, after it, one of weeks ago: a running process answers as one
// that starts, with the same notices. So it does with a snapshot that is late by less than an hour.
func TestLateSnapshotsBetweenTwoLooks(t *testing.T) {
	for name, late := range map[string][]drawnRow{"weeks": quarterly(100, 101), "half an hour": quarterly(2398, 2399)} {
		dir := t.TempDir()
		before, next := quarterly(0, 100), quarterly(101, 2398)
		before = append(before, next...)
		snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(before)})
		warm := open(t, dir, "UTC", t.TempDir())
		load(t, warm, before)
		ordinary := quarterly(2399, 2401)
		appended := append(append([]drawnRow{}, ordinary...), late...)
		for n := range 3 { // and continues
			appended = append(appended, quarterly(2401+n, 2402+n)...)
			db := snapshotstest.Open(t, dir, september, snapshotstest.Schema)
			snapshotstest.Append(t, db, snapshotstest.Schema, plain(appended)...)
			require.NoError(t, db.Close())
			before, appended = append(before, appended...), nil
			fresh := open(t, dir, "UTC", "")
			want := load(t, fresh, before)
			requireEqual(t, ask(before), want)
			got := load(t, warm, before)
			requireEqual(t, ask(before), got)
			require.Equal(t, want.Notices, got.Notices, "%s, %d", name, n)
			require.NotEmpty(t, got.Notices)
			require.NoError(t, fresh.Close())
		}
		require.NoError(t, warm.Close())
	}
}

// Rows that are edited and rows that are appended between two looks: both are seen, the edits at the latest when the
// source is rechecked.
func TestEditsBesideGrowth(t *testing.T) {
	dir := t.TempDir()
	rows := quarterly(0, 400)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(rows[:600])})
	tl := open(t, dir, "UTC", t.TempDir())
	defer tl.Close()
	load(t, tl, rows[:600])
	db := snapshotstest.Open(t, dir, september, snapshotstest.Schema)
	_, err := db.Exec("UPDATE gpu_state SET State = 'Drained', RemoteOwner = NULL, GlobalJobId = NULL")
	require.NoError(t, err)
	snapshotstest.Append(t, db, snapshotstest.Schema, plain(rows[600:])...)
	require.NoError(t, db.Close())
	for _, r := range rows[:600] {
		r.Row["State"], r.Row["RemoteOwner"], r.Row["GlobalJobId"] = "Drained", nil, nil
	}
	tl.Source().Recheck()
	requireEqual(t, ask(rows), load(t, tl, rows))
}

// Rows that are edited while no process runs are seen by the next one, whichever rows they are, and even if others were
// appended, provided that it rechecks them. Days that were compared with their rows once are not compared again.
func TestEditsBetweenProcesses(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	rows := quarterly(0, 400)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(rows)})
	path := filepath.Join(dir, september)
	then := time.Now().Add(-time.Hour)
	day := pool.DayOf(start) + 1
	random := rand.New(rand.NewPCG(3, 5))
	for range 8 {
		then = then.Add(time.Minute)
		require.NoError(t, os.Chtimes(path, then, then))
		tl := open(t, dir, "UTC", cache)
		requireEqual(t, ask(rows), load(t, tl, rows))
		require.NoError(t, tl.Close())

		n := random.IntN(len(rows))
		db := snapshotstest.Open(t, dir, september, snapshotstest.Schema)
		_, err := db.Exec("UPDATE gpu_state SET State = 'Drained', RemoteOwner = NULL, GlobalJobId = NULL WHERE rowid = ?",
			n+1)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		rows[n].Row["State"], rows[n].Row["RemoteOwner"], rows[n].Row["GlobalJobId"] = "Drained", nil, nil
	}
	db := snapshotstest.Open(t, dir, september, snapshotstest.Schema)
	snapshotstest.Append(t, db, snapshotstest.Schema, plain(quarterly(400, 408))...)
	require.NoError(t, db.Close())
	rows = append(rows, quarterly(400, 408)...)
	tl := open(t, dir, "UTC", cache)
	tl.Source().Recheck()
	requireEqual(t, ask(rows), load(t, tl, rows))
	require.NoError(t, tl.Close())

	then = then.Add(time.Minute) // as if something had been written that is none of the day's
	require.NoError(t, os.Chtimes(path, then, then))
	version := func() (kept, now string) {
		tl := open(t, dir, "UTC", cache)
		state, err := tl.look(t.Context())
		require.NoError(t, err)
		var of snapshots.Key
		_, ok := tl.cache.disk.Read(tl.segments.blob(day, nil), &of)
		require.True(t, ok)
		v := load(t, tl, rows)
		requireEqual(t, ask(rows), v)
		require.Zero(t, v.Work.Rows)
		require.NoError(t, tl.Close())
		return of.Version, state.Version(day)
	}
	kept, now := version()
	require.NotEqual(t, now, kept)
	kept, now = version()
	require.Equal(t, now, kept)
	require.NotEmpty(t, now)
}
