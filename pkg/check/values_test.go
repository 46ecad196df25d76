package check

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Values that are not known are a warning with an example, texts that mean no value a note; in queue files, too.
func TestValues(t *testing.T) {
	row := func(minute int, with snapshotstest.Row) snapshotstest.Row {
		r := snapshotstest.Row{"Name": "slot1@m1", "Machine": "m1", "AssignedGPUs": "GPU-1", "State": "Unclaimed",
			"timestamp": fmt.Sprintf("2025-10-03 04:%02d:00", minute)}
		for column, value := range with {
			r[column] = value
		}
		return r
	}
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": {
		row(0, snapshotstest.Row{"GPUs_GlobalMemoryMb": 81559}),
		row(15, snapshotstest.Row{"GPUs_GlobalMemoryMb": " Null ", "Cpus": "undefined"})}})
	in := open(t, dir, "UTC", now)
	found := look(t, in)["values"]
	require.Equal(t, Note, found.Severity)
	require.Contains(t, found.Text, `GPUs_GlobalMemoryMb (1, such as " Null ")`)
	require.Contains(t, found.Text, `Cpus (1, such as "undefined")`)
	require.Contains(t, found.Text, "write NULL")
	v, err := in.Timeline.Load(t.Context(), now.UnixMicro()-1, now.UnixMicro())
	require.NoError(t, err)
	require.Empty(t, v.Days)
	v, err = in.Timeline.Load(t.Context(), time.Date(2025, 10, 3, 4, 0, 0, 0, time.UTC).UnixMicro(), now.UnixMicro())
	require.NoError(t, err)
	require.EqualValues(t, 81559, v.Days[0].Model(0).Memory, "the last one that is a value")

	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": {
		row(0, snapshotstest.Row{"State": "claimed", "BackfillSlot": "on"})}})
	found = look(t, open(t, dir, "UTC", now))["values"]
	require.Equal(t, Warning, found.Severity)
	require.Contains(t, found.Text, `BackfillSlot (1, such as "on"), State (1, such as "claimed")`)

	schema := []string{"GlobalJobId TEXT", "Owner TEXT", "JobState TEXT", "first_seen INTEGER", "last_seen INTEGER"}
	for _, c := range []struct{ owner, state, severity, told string }{
		{"ann", "Running", "", ""},
		{"[ ]", "I", Note, `Owner (1, such as "[ ]")`},
		{"ann", "held", Warning, `JobState (1, such as "held")`},
	} {
		queue := t.TempDir()
		db := snapshotstest.Open(t, queue, "job_pressure_2025-10.db", schema)
		_, err := db.Exec("ALTER TABLE gpu_state RENAME TO job_pressure")
		require.NoError(t, err)
		_, err = db.Exec("INSERT INTO job_pressure VALUES ('ap#1.0#1759276000', ?, ?, 1759465000, 1759466000)", c.owner, c.state)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		in, root := open(t, dir, "UTC", now), must(os.OpenRoot(queue))
		with := *in.Stores
		with.Queues = queues.NewStore(queues.Options{Root: root, Path: queue, Names: timeline.NewNames(), MaxBytes: 1 << 20})
		in.Stores = &with
		found := look(t, in)
		require.Equal(t, c.severity, found["queue values"].Severity, c)
		require.Contains(t, found["queue values"].Text, c.told)
		require.NotContains(t, found, "queues")
		require.NoError(t, os.WriteFile(filepath.Join(queue, "job_pressure_2025-11.db"), []byte("no database"), 0o600))
		require.Contains(t, look(t, in)["queues"].Text, "job_pressure_2025-11.db")
		require.NoError(t, with.Queues.Close())
		require.NoError(t, root.Close())
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Snapshots with few of the machines are a note once these are back, and until then a warning.
func TestIncompleteSnapshots(t *testing.T) {
	var rows []snapshotstest.Row
	for s, known := range []int{9, 9, 4, 3, 9, 9, 2} {
		for m := range known {
			machine := fmt.Sprint("m", m)
			rows = append(rows, snapshotstest.Row{"Name": "slot1@" + machine, "Machine": machine, "AssignedGPUs": "GPU-1",
				"State": "Claimed", "GlobalJobId": fmt.Sprintf("ap#%d.0#1759276000", m), "RemoteOwner": "ann",
				"timestamp": fmt.Sprintf("2025-10-03 04:%02d:00", 9*s)})
		}
	}
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": rows})
	found := look(t, open(t, dir, "UTC", now))
	require.Equal(t, Note, found["incomplete snapshots"].Severity)
	require.Contains(t, found["incomplete snapshots"].Text, "2 snapshots with less than half of the machines")
	require.Contains(t, found["incomplete snapshots"].Text, "the snapshot of 2025-10-03 04:27 UTC has 3 of 9 machines")
	require.Equal(t, Warning, found["missing machines"].Severity)
	require.Contains(t, found["missing machines"].Text, "the snapshot of 2025-10-03 04:54 UTC has 2 of 9 machines")
	require.Equal(t, 5, found["gpu_state_2025-10.db"].Details["snapshots"])
}
