package runs_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/timeline"
)

// drawShots draws up to 24 snapshots, mostly of one night.
func drawShots(t *rapid.T) []shot {
	// few jobs, so that they meet again
	return draw(t, 24, []string{"ap#1.0#7", "ap#2.0#7", "ap#3.0#7", ""})
}

// draw draws snapshots of two machines with three GPUs: jobs that come, go, change their GPUs and are taken over, stale
// rows, machines that miss snapshots, gaps within and between days. A job "" has no id.
func draw(t *rapid.T, most int, jobs []string) []shot {
	at := time.Date(2025, 6, 2, 22, 30, 0, 0, time.UTC).UnixMicro()
	var shots []shot
	type slot struct{ state, job string }
	now := map[string]slot{} // of a side of a GPU
	// rows mostly stay unchanged
	for range rapid.IntRange(2, most).Draw(t, "snapshots") {
		at += int64(rapid.SampledFrom([]int{15, 15, 15, 15, 15, 30, 45, 24 * 60}).Draw(t, "minutes")) * 60e6
		s := shot{at: at}
		for m := range 2 {
			machine := fmt.Sprintf("m%d", m)
			for g := range 3 {
				for _, backfill := range []bool{false, true} {
					key := fmt.Sprint(machine, g, backfill)
					if rapid.IntRange(0, 3).Draw(t, "changes") == 0 {
						now[key] = slot{rapid.SampledFrom([]string{"", "Unclaimed", "Claimed", "Claimed", "Drained"}).Draw(t, "state"),
							rapid.SampledFrom(jobs).Draw(t, "job")}
					}
				}
			}
			if rapid.IntRange(0, 6).Draw(t, "silent") == 0 {
				continue
			}
			s.rows = append(s.rows, row{machine: machine}) // a row without a GPU: the machine reports
			for g := range 3 {
				for _, backfill := range []bool{false, true} {
					is := now[fmt.Sprint(machine, g, backfill)]
					if is.state == "" {
						continue
					}
					r := row{machine: machine, gpu: fmt.Sprintf("GPU-%d", g), state: is.state, backfill: backfill}
					if is.state == "Claimed" {
						r.job, r.user = is.job, "user-"+is.job
						if backfill && rapid.IntRange(0, 9).Draw(t, "two claims") == 0 { // a second claim of the GPU
							second := r
							second.job = rapid.SampledFrom(jobs[:len(jobs)-1]).Draw(t, "second")
							second.user = "user-" + second.job
							s.rows = append(s.rows, second)
						}
					}
					s.rows = append(s.rows, r)
				}
			}
		}
		shots = append(shots, s)
	}
	return shots
}

func load(t *rapid.T, tb testing.TB, dir string, shots []shot) *timeline.View {
	appendShots(t, tb, dir, shots)
	tl := open(t, dir)
	defer func() { require.NoError(t, tl.Close()) }()
	v, err := tl.Load(context.Background(), shots[0].at, shots[len(shots)-1].at)
	require.NoError(t, err)
	require.Len(t, v.Times, len(shots))
	return v
}

func open(t *rapid.T, dir string) *timeline.Timeline {
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	return timeline.New(timeline.Options{Source: registry.OpenDir(d, localtime.UTC), MaxBytes: 1 << 24})
}

// appendShots appends snapshots to the month files.
func appendShots(t *rapid.T, tb testing.TB, dir string, shots []shot) {
	files := map[string][]snapshotstest.Row{}
	for _, s := range shots {
		text := pool.Time(s.at).Format("2006-01-02 15:04:05.000000")
		for _, r := range s.rows {
			line := snapshotstest.Row{"Machine": r.machine, "timestamp": text, "Name": "slot1@" + r.machine, "State": r.state}
			if r.backfill {
				line["Name"] = "backfill2@" + r.machine
			}
			for column, value := range map[string]string{"AssignedGPUs": r.gpu, "GlobalJobId": r.job, "RemoteOwner": r.user} {
				if value != "" {
					line[column] = value
				}
			}
			files["gpu_state_"+text[:7]+".db"] = append(files["gpu_state_"+text[:7]+".db"], line)
		}
		if len(s.rows) == 0 { // a snapshot that shows another machine only
			files["gpu_state_"+text[:7]+".db"] = append(files["gpu_state_"+text[:7]+".db"],
				snapshotstest.Row{"Machine": "other", "timestamp": text, "Name": "slot1@other", "State": "Unclaimed"})
		}
	}
	for name, lines := range files {
		db := snapshotstest.Open(tb, dir, name, snapshotstest.Schema, "synchronous=off", "journal_mode=off")
		snapshotstest.Append(tb, db, snapshotstest.Schema, lines...)
		require.NoError(t, db.Close())
	}
}

// States and runs are those of the oracle, on pools that hold everything that can happen.
func TestObserveByDefinition(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "pool")
		require.NoError(rt, err)
		shots := drawShots(rt)
		v := load(rt, t, dir, shots)
		for i, s := range shots {
			rt.Log(i, s)
		}
		n := naive{shots: shots}
		for s := range shots {
			n.limit = append(n.limit, v.GapLimit(s))
		}
		o, err := runs.Observe(context.Background(), v, pool.Window{From: shots[0].at, To: shots[len(shots)-1].at},
			pool.Lists{})
		require.NoError(rt, err)

		var got, want []string
		inPool := map[string]bool{}
		for m := range o.Machines {
			machine := &o.Machines[m]
			name := v.Names.Text(machine.Name)
			for g := range machine.GPUs {
				gpu := &machine.GPUs[g]
				id := v.Names.Text(gpu.ID)
				inPool[name+" "+id] = true
				next := int32(0)
				for _, s := range gpu.Segments {
					require.Equal(rt, next, s.First, "segments follow each other")
					next = s.Last + 1
					for i := s.First; i <= s.Last; i++ {
						is := n.state(name, id, int(i))
						require.Equal(rt, is.state, s.State.String(), "%s %s at %d", name, id, i)
						if run := s.RunFirst; run >= 0 && i == s.First && s.State != runs.Outside {
							r := &machine.Runs[run]
							require.True(rt, r.First <= i && i <= max(r.Last, r.Gone-1) && slices.Contains(r.GPUs, int32(g)),
								"the run of %s %s at %d", name, id, i)
							require.Equal(rt, is.job, v.Names.JobText(r.Job), "%s %s at %d: %+v of %+v", name, id, i, s, machine.Runs)
						}
					}
				}
				require.Equal(rt, int32(len(shots)), next)
			}
			for _, r := range machine.Runs {
				var ids []string
				for _, g := range r.GPUs {
					ids = append(ids, v.Names.Text(machine.GPUs[g].ID))
				}
				ending := map[runs.Ending]string{runs.Vanished: "vanished", runs.Interrupted: "interrupted",
					runs.EndOfData: "end of data"}[r.Ending]
				got = append(got, fmt.Sprintf("backfill=%v %s %s %s gpus=%s leader=%s %d-%d gone=%d %s takeover=%v by=%q",
					r.Side == pool.Backfill, name, v.Names.JobText(r.Job), v.Names.Text(r.User),
					strings.Join(ids, ","), v.Names.Text(machine.GPUs[r.Leader].ID), r.First, r.Last, r.Gone, ending, r.Takeover,
					v.Names.Text(r.TakenBy)))
			}
		}
		for _, r := range n.runs() {
			want = append(want, r.String())
		}
		slices.Sort(got)
		slices.Sort(want)
		require.Equal(rt, want, got)
		for s := range shots {
			for _, r := range shots[s].rows {
				require.True(rt, r.gpu == "" || inPool[r.machine+" "+r.gpu], "every GPU is observed")
			}
		}
	})
}
