package timeline

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
)

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

// drawShots draws the snapshots of a pool around a midnight whose machines vanish and come back, with their jobs or with
// others.
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
