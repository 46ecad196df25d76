package timeline

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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
	tl.Source.Recheck()
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
	tl.Source.Recheck()
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

// shot is a snapshot as a test draws it: the machines that have a row, and the job on each.
type shot struct {
	at   pool.Micros
	jobs map[string]string
}

// rows are a row of each machine's GPU. Devices and owners change, so that a snapshot that counts wrongly shows.
func (s shot) rows() (rows []drawnRow) {
	for _, machine := range slices.Sorted(maps.Keys(s.jobs)) {
		slot := "slot1@" + machine
		row := drawnRow{at: s.at, slot: slot, gpu: "GPU-0", Row: snapshotstest.Row{
			"Name": slot, "Machine": machine, "AssignedGPUs": "GPU-0", "State": "Unclaimed",
			"timestamp":       pool.Time(s.at).Format("2006-01-02 15:04:05.000000"),
			"GPUs_DeviceName": fmt.Sprintf("device %d", s.at/pool.Minute%7),
		}}
		if s.at/pool.Minute%11 == 0 {
			row.Row["PrioritizedProjects"] = "Chem"
		}
		if job := s.jobs[machine]; job != "" {
			row.Row["State"], row.Row["GlobalJobId"], row.Row["RemoteOwner"] = "Claimed", job, "alice"
			row.Row["GPUsAverageUsage"] = 0.5
		}
		rows = append(rows, row)
	}
	return rows
}

// drawShots draws the snapshots of a pool around a midnight whose machines vanish and come back, with their jobs or
// with others.
func drawShots(t *rapid.T) (shots []shot) {
	at := 20400*pool.Day - rapid.Int64Range(30*pool.Minute, 4*pool.Hour).Draw(t, "begin")
	machines := rapid.IntRange(4, 11).Draw(t, "machines")
	jobs := map[string]string{}
	for n := range rapid.IntRange(2, 30).Draw(t, "snapshots") {
		at += rapid.SampledFrom([]pool.Micros{5 * pool.Minute, 15 * pool.Minute, 15 * pool.Minute, 20 * pool.Minute,
			25 * pool.Minute, 65 * pool.Minute}).Draw(t, "step")
		for m := range machines {
			if rapid.IntRange(0, 9).Draw(t, "new job") == 0 {
				jobs[fmt.Sprint("m", m)] = rapid.SampledFrom([]string{"", fmt.Sprintf("ap#%d.%d#1762000000", n, m)}).Draw(t, "job")
			}
		}
		s := shot{at, map[string]string{}}
		known := rapid.SampledFrom([]int{machines, machines, machines, machines - 1, machines / 2, machines / 3, 1,
			0}).Draw(t, "known")
		from := rapid.IntRange(0, machines-1).Draw(t, "from")
		for m := range known {
			machine := fmt.Sprint("m", (from+m)%machines)
			s.jobs[machine] = jobs[machine]
		}
		if rapid.IntRange(0, 9).Draw(t, "foreign") == 0 {
			s.jobs["other"] = ""
		}
		if len(s.jobs) > 0 {
			shots = append(shots, s)
		}
	}
	return shots
}

// gapBetween says whether there is a gap between two consecutive snapshots of all.
func gapBetween(all []shot, i int) bool {
	median := func(day int64) pool.Micros {
		var distances []pool.Micros
		for k := 1; k < len(all); k++ {
			if all[k-1].at/pool.Day == day && all[k].at/pool.Day == day {
				distances = append(distances, all[k].at-all[k-1].at)
			}
		}
		if len(distances) < 8 {
			return 0
		}
		slices.Sort(distances)
		return (distances[(len(distances)-1)/2] + distances[len(distances)/2]) / 2
	}
	cadence := median(all[i].at / pool.Day)
	if cadence == 0 {
		cadence = median(all[i].at/pool.Day - 1)
	}
	if cadence == 0 {
		cadence = 15 * pool.Minute
	}
	return all[i+1].at-all[i].at > max(cadence*5/2, 20*pool.Minute)
}

// incompleteOf finds the incomplete snapshots by their definition, one after the other, and those that are waited for.
func incompleteOf(all []shot) (left, waiting []int) {
	in := func(machines map[string]string, of map[string]string) (n float64) {
		for m := range machines {
			if _, there := of[m]; there {
				n++
			}
		}
		return n
	}
	complete, gap := 0, false
	for i := 1; i < len(all); i++ {
		gap = gap || gapBetween(all, i-1)
		c, s := all[complete].jobs, all[i].jobs
		few := !gap && len(c) >= 5 && float64(len(s)) < float64(len(c))/2 && float64(len(s))-in(s, c) <= 0.1*float64(len(s))
		back, open := false, few && all[len(all)-1].at < all[complete].at+65*pool.Minute
		for _, r := range all[i+1:] {
			if !few || r.at > all[complete].at+65*pool.Minute {
				break
			}
			if in(c, r.jobs) < 0.9*float64(len(c))-1e-9 {
				continue
			}
			ran, again := 0.0, 0.0
			for m, job := range c {
				if _, there := s[m]; job == "" || there {
					continue
				}
				ran++
				if r.jobs[m] == job {
					again++
				}
			}
			back, open = again >= ran/2, false
			break
		}
		switch {
		case back:
			left = append(left, i)
		case open:
			waiting = append(waiting, i)
		default:
			complete, gap = i, false
		}
	}
	return left, waiting
}

// However a pool grows, with restarts between, incomplete snapshots count nowhere: days are those of the other rows, no
// gap lies around them, and those whose machines may still come back are named.
func TestIncompleteSnapshotsCountNowhere(testingT *testing.T) {
	found := 0
	rapid.Check(testingT, func(t *rapid.T) {
		shots := drawShots(t)
		if len(shots) == 0 {
			return
		}
		dir, cache := testingT.TempDir(), testingT.TempDir()
		tl := open(testingT, dir, "UTC", cache)
		defer func() {
			_ = tl.Close()
			_ = os.RemoveAll(dir)
			_ = os.RemoveAll(cache)
		}()
		for from := 0; from < len(shots); {
			to := min(len(shots), from+rapid.SampledFrom([]int{1, 1, 3, 30}).Draw(t, "more"))
			var added []snapshotstest.Row
			for _, s := range shots[from:to] {
				for _, r := range s.rows() {
					added = append(added, r.Row)
				}
			}
			db := snapshotstest.Open(testingT, dir, "gpu_state_2025-11.db", snapshotstest.Schema, "synchronous=off")
			snapshotstest.Append(testingT, db, snapshotstest.Schema, added...)
			require.NoError(t, db.Close())
			from = to
			if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
				require.NoError(t, tl.Close())
				tl = open(testingT, dir, "UTC", cache)
			}
			all := shots[:to]
			left, waiting := incompleteOf(all)
			found += len(left)
			var rows []drawnRow
			for i, s := range all {
				if !slices.Contains(left, i) {
					rows = append(rows, s.rows()...)
				}
			}
			v, err := tl.Load(testingT.Context(), all[0].at, all[len(all)-1].at)
			require.NoError(t, err)
			requireEqual(t, ask(rows), v)

			gotLeft, gotWaiting := v.Incomplete(pool.Window{From: all[0].at, To: all[len(all)-1].at})
			require.Equal(t, timesOf(all, left), incompleteTimes(gotLeft))
			require.Equal(t, timesOf(all, waiting), incompleteTimes(gotWaiting))
			said := strings.Count(fmt.Sprint(v.Notices), "incomplete and count")
			require.Equal(t, min(len(left), 1), said)
			for _, i := range left {
				n, _ := slices.BinarySearch(v.Times, all[i].at)
				require.False(t, v.GapAfter(n-1), "around %d", i)
			}
			if len(waiting) > 0 {
				last := all[waiting[len(waiting)-1]]
				require.Contains(t, fmt.Sprint(v.Notices), fmt.Sprintf("has %d of ", len(last.jobs)))
			}
			usages, notices, err := tl.Usage(testingT.Context(), v, 0, len(v.Days))
			require.NoError(t, err)
			require.Empty(t, notices)
			for k, u := range usages {
				require.Equal(t, len(v.Days[k].Times), u.snapshots)
			}

			// a part of the time says the same
			at := all[rapid.IntRange(0, len(all)-1).Draw(t, "at")].at
			part, err := tl.Load(testingT.Context(), at, at)
			require.NoError(t, err)
			_, end := v.Snapshots(pool.Window{From: at, To: at})
			_, partEnd := part.Snapshots(pool.Window{From: at, To: at})
			require.Equal(t, v.Times[end-1], part.Times[partEnd-1])
		}
	})
	require.Positive(testingT, found)
}

func timesOf(all []shot, which []int) (times []pool.Micros) {
	for _, i := range which {
		times = append(times, all[i].at)
	}
	return times
}

func incompleteTimes(all []Incomplete) (times []pool.Micros) {
	for _, i := range all {
		times = append(times, i.Time)
	}
	return times
}
