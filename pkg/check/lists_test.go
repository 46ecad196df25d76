package check

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/timeline"
)

var machines = []string{"alpha1.example.org", "beta1.example.org", "beta2.example.org", "gamma1.example.org"}

func owned(names ...string) pool.Lists {
	lists := pool.Lists{CHTCOwned: map[string]bool{}}
	for _, name := range names {
		lists.CHTCOwned[name] = true
	}
	return lists
}

func TestOwnership(t *testing.T) {
	for _, c := range []struct {
		entries  []string
		severity string
		text     string
	}{
		{nil, Note, "lists no machine"},
		{[]string{"beta1.example.org", "gamma1.example.org"}, OK, "of 2 machines in chtcOwnedFile snapshots know 2"},
		{[]string{"beta1.example.org", "gone.example.org"}, Note, "snapshots know 1; no snapshot knows gone.example.org"},
		{[]string{"Beta1.example.org"}, Warning, "Beta1.example.org (it is beta1.example.org)"},
		{[]string{"beta1", "gone"}, Warning, "no snapshot knows gone: gone, without a GPU, or misspelled. Names must be " +
			"whole, and these are not: beta1 (it is beta1.example.org)"},
		{[]string{"beta1.elsewhere.org", "beta1.example.org"}, Note, "no snapshot knows beta1.elsewhere.org"},
	} {
		found := ownershipFinding(owned(c.entries...), machines)
		require.Equal(t, c.severity, found.Severity, "%v: %s", c.entries, found.Text)
		require.Contains(t, found.Text, c.text)
	}
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("gone%02d", i))
	}
	found := ownershipFinding(owned(many...), machines)
	require.Contains(t, found.Text, "gone00, gone01, gone02, gone03, gone04 and 35 more")
	require.Len(t, found.Details["unknown"], 40)
}

func TestExclusions(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		severity string
		text     string
	}{
		{nil, OK, "none"},
		{[]string{"ALPHA"}, OK, `"ALPHA" takes out alpha1.example.org`},
		{[]string{"beta"}, OK, `"beta" takes out beta1.example.org, beta2.example.org`},
		{[]string{"delta"}, Note, `"delta" matches no machine`},
		{[]string{"beta", "beta1"}, Note, `"beta1" matches only machines that others take out already`},
		{[]string{"example"}, Warning, "4 of 4 machines: more than half"},
	} {
		lists := pool.Lists{}
		for _, p := range c.patterns {
			lists.Excluded = append(lists.Excluded, pool.Exclusion{Pattern: p, Reason: "broken"})
		}
		found := exclusionsFinding(lists, machines)
		require.Equal(t, c.severity, found.Severity, "%v: %s", c.patterns, found.Text)
		require.Contains(t, found.Text, c.text)
	}
}

func TestProjectNames(t *testing.T) {
	names := map[string][]string{"Lab": {"P1", "P2"}, "Gone": {"P1"}}
	set := func(names ...string) map[string]bool {
		set := map[string]bool{}
		for _, name := range names {
			set[name] = true
		}
		return set
	}
	for _, c := range []struct {
		priority, jobs map[string]bool
		severity       string
		text           string
	}{
		{set("Lab", "Gone"), set("P1", "P2"), OK, "project names: 2 projects in projectNamesFile"},
		{set("Lab"), set("P1", "P2"), Note, "no machine gives priority to Gone: correct"},
		{set("Lab", "Gone"), set("P2"), Note, "no job in the queue files has the project P1: correct"},
		{set("Lab", "Gone"), nil, Note, "collect --jobs"},
	} {
		found := projectNamesFinding(names, c.priority, c.jobs)
		require.Equal(t, c.severity, found.Severity, found.Text)
		require.Contains(t, found.Text, c.text)
	}
}

// What only the site can mend of its machines, GPUs and lists is named, and nothing of a pool without fault.
func TestWhatOnlyTheSiteCanMend(t *testing.T) {
	change := func(rows []snapshotstest.Row, with snapshotstest.Row) (changed []snapshotstest.Row) {
		for _, r := range rows {
			r = maps.Clone(r)
			maps.Copy(r, with)
			changed = append(changed, r)
		}
		return changed
	}
	first := change(every("2025-10-01 00:00:00", 15*time.Minute, 100), snapshotstest.Row{"GPUs_DeviceName": "A100"})
	later := change(every("2025-10-02 01:00:00", 15*time.Minute, 20), snapshotstest.Row{"GPUs_DeviceName": "A100"})
	stores := []string{"gpus", "devices", "machine names", "lists"}
	for name, c := range map[string]struct {
		rows  []snapshotstest.Row
		list  string // masked_hosts.yaml
		store string
		text  string
	}{
		"nothing": {rows: slices.Concat(first, later)},
		"a renamed attribute": {rows: slices.Concat(first, change(later, snapshotstest.Row{"AssignedGPUs": nil})),
			store: "gpus", text: "no row names a GPU in AssignedGPUs since 2025-10-02 00:45 UTC, and the newest snapshot has " +
				"1 row"},
		"GPUs never named": {rows: change(first, snapshotstest.Row{"AssignedGPUs": ""}),
			store: "gpus", text: "no row names a GPU in AssignedGPUs, and the newest snapshot has 1 row"},
		"mixed models": {rows: slices.Concat(first, later, change(later, snapshotstest.Row{"Machine": "m2",
			"GPUs_DeviceName": nil})), store: "devices",
			text: "1 machine without a GPUs_DeviceName: m2. HTCondor has none for a machine with GPUs of several models"},
		"no devices": {rows: change(first, snapshotstest.Row{"GPUs_DeviceName": ""}), store: "devices",
			text: "no GPU has a GPUs_DeviceName"},
		"names that differ in case": {rows: slices.Concat(first, later,
			change(later, snapshotstest.Row{"Machine": "M1"})), store: "machine names",
			text: "M1 and m1 differ only in case, and count as different machines"},
		"a misspelled key": {rows: first, list: "exclude_hosts: {m1: broken}", store: "lists",
			text: "unknown key exclude_hosts"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": c.rows})
			if c.list != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "masked_hosts.yaml"), []byte(c.list), 0o600))
			}
			found := look(t, open(t, dir, "UTC", now))
			for _, store := range stores {
				if store != c.store {
					require.NotContains(t, found, store)
					continue
				}
				require.Equal(t, Warning, found[store].Severity)
				require.Contains(t, found[store].Text, c.text)
			}
		})
	}
}

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
		_, err = db.Exec("INSERT INTO job_pressure VALUES ('ap#1.0#1759276000', ?, ?, 1759465000, 1759466000)", c.owner,
			c.state)
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
