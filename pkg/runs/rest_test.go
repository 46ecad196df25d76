package runs_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// What an observation takes over from an earlier one is what walking everything gives: when snapshots are added, the
// window's end moves, or rows are changed, on pools that hold everything that can happen.
func TestObserveAfterAnEarlierObservation(t *testing.T) {
	again := 0
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "pool")
		require.NoError(rt, err)
		jobs := []string{"ap#1.0#7", "ap#2.0#7", "ap#3.0#7", "ap#4.0#7", "ap#5.0#7", "ap#6.0#7", "ap#7.0#7", "ap#8.0#7", ""}
		shots := draw(rt, 80, jobs)
		tl := open(rt, dir)
		defer func() { require.NoError(rt, tl.Close()) }()
		var earlier *runs.Observed
		for written := 0; written < len(shots); {
			next := min(len(shots), written+rapid.IntRange(1, 40).Draw(rt, "more"))
			appendShots(rt, t, dir, shots[written:next])
			if written = next; rapid.IntRange(0, 5).Draw(rt, "edit") == 0 {
				edit(rt, dir, rapid.IntRange(0, 400).Draw(rt, "rows"))
			}
			reach := pool.Window{From: shots[0].at, To: shots[rapid.IntRange(written/2, written-1).Draw(rt, "end")].at}
			v, err := tl.Load(context.Background(), reach.From, reach.To)
			require.NoError(rt, err)
			o, machines, err := runs.ObserveAfter(context.Background(), v, reach, pool.Lists{}, earlier)
			require.NoError(rt, err)
			again += machines
			want, err := runs.Observe(context.Background(), v, reach, pool.Lists{})
			require.NoError(rt, err)
			require.True(rt, reflect.DeepEqual(want.Machines, o.Machines), "%+v\n%+v", want.Machines, o.Machines)
			wantJobs, wantBefore, wantNewest := want.Jobs()
			jobs, before, newest := o.Jobs()
			require.Equal(rt, wantJobs, jobs)
			require.Equal(rt, wantBefore, before)
			require.Equal(rt, wantNewest, newest)
			earlier = o
		}
	})
	t.Log(again, "machines took something over")
	require.Positive(t, again)
}

// edit takes the jobs off some rows, from one on.
func edit(t *rapid.T, dir string, from int) {
	files, err := filepath.Glob(filepath.Join(dir, "gpu_state_*.db"))
	require.NoError(t, err)
	db, err := sql.Open("sqlite", files[0])
	require.NoError(t, err)
	_, err = db.ExecContext(context.Background(), "UPDATE gpu_state SET State = 'Unclaimed', GlobalJobId = NULL, "+
		"RemoteOwner = NULL WHERE rowid % 5 = 2 AND rowid >= ?", from)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}
