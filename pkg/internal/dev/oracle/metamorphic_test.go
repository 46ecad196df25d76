package oracle

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// edit changes the month files of a pool by SQL.
func edit(t *testing.T, dir string, statements ...string) {
	files, err := filepath.Glob(filepath.Join(dir, "gpu_state_????-??.db"))
	require.NoError(t, err)
	for _, f := range files {
		db, err := sql.Open("sqlite", f)
		require.NoError(t, err)
		for _, s := range statements {
			_, err := db.Exec(s)
			require.NoError(t, err, s)
		}
		require.NoError(t, db.Close())
	}
}

// Changes of the input whose effect on answers is known without computing any: rows that stand twice and a machine that
// a filter leaves out change nothing, a user of another name has the same hours, other spellings of values are the same
// values, the same rows in Parquet have the same answers, and events of two windows that meet at midnight are those of
// both together.
func TestChangesOfKnownEffect(t *testing.T) {
	o := samplepool.Hard()
	o.Seed, o.Machines, o.Timezone, o.Start = 11, 6, "UTC", time.Date(2025, 9, 29, 7, 0, 0, 0, time.UTC)
	o.End = o.Start.Add(40 * time.Hour)
	made, err := samplepool.New(o)
	require.NoError(t, err)
	write := func(statements ...string) string {
		dir := t.TempDir()
		require.NoError(t, made.WriteSnapshots(context.Background(), dir))
		edit(t, dir, statements...)
		return dir
	}
	plain := write()
	r := readRecords(t, plain, o.Timezone)
	var machines []string
	for m := range r.snapshots[0].machines {
		machines = append(machines, fmt.Sprintf("%q", m))
	}
	filter := `"filter": {"machines": [` + strings.Join(machines, ",") + `]}`
	questions := []string{
		`{"queryType": "allocation", "view": "summary", "groupBy": ["category", "device"], ` + filter + `}`,
		`{"queryType": "userHours", "view": "summary", "groupBy": ["category"], ` + filter + `}`,
		`{"queryType": "evictions", "view": "runs", ` + filter + `}`,
		`{"queryType": "evictions", "view": "jobs", ` + filter + `}`,
		`{"queryType": "utilization", "view": "summary", "groupBy": ["user", "project"], ` + filter + `}`,
		`{"queryType": "backfillAvailability", "view": "periods", "duration": "tenure", ` + filter + `}`,
	}
	from, to := r.snapshots[0].at, r.snapshots[len(r.snapshots)-1].at
	answers := func(dir string, from, to int64, rename *strings.Replacer) (all []string) {
		p := open(t, r, dir, o.Timezone, "none")
		var asked []question
		for _, q := range questions {
			asked = append(asked, question{q, func(frames data.Frames) {
				rows := golden.Rows(frames)
				require.NotEmpty(t, rows, q)
				lines := map[string]int{}
				for _, row := range rows {
					lines[rename.Replace(fmt.Sprint(row))]++
				}
				all = append(all, fmt.Sprint(lines))
			}})
		}
		p.ask(t, from, to, asked)
		return all
	}
	same := strings.NewReplacer()
	want := answers(plain, from, to, same)
	for change, statements := range map[string][]string{
		"rows that stand twice": {"CREATE TABLE twice AS SELECT * FROM gpu_state UNION ALL SELECT * FROM gpu_state",
			"DELETE FROM gpu_state", "INSERT INTO gpu_state SELECT * FROM twice ORDER BY timestamp", "DROP TABLE twice"},
		"another machine": {"INSERT INTO gpu_state (Name, AssignedGPUs, State, GPUs_DeviceName, Machine, timestamp) SELECT " +
			"DISTINCT 'slot1@other', 'GPU-other', 'Unclaimed', 'NVIDIA A100', 'other', timestamp FROM gpu_state",
			"CREATE TABLE ordered AS SELECT * FROM gpu_state ORDER BY timestamp", "DELETE FROM gpu_state",
			"INSERT INTO gpu_state SELECT * FROM ordered", "DROP TABLE ordered"},
		"other spellings": {"UPDATE gpu_state SET RemoteOwner = 'undefined' WHERE coalesce(RemoteOwner, '') = ''",
			"UPDATE gpu_state SET PrioritizedProjects = '{ }' WHERE coalesce(PrioritizedProjects, '') = ''",
			"UPDATE gpu_state SET GlobalJobId = '<na>' WHERE coalesce(GlobalJobId, '') = ''",
			`UPDATE gpu_state SET AssignedGPUs = ' "' || replace(AssignedGPUs, 'GPU-', 'GPU_') || '" ' WHERE AssignedGPUs <> ''`},
	} {
		require.Equal(t, want, answers(write(statements...), from, to, same), change)
	}
	renamed := write("UPDATE gpu_state SET RemoteOwner = 'zoe' || RemoteOwner WHERE RemoteOwner <> ''")
	got := answers(renamed, from, to, strings.NewReplacer("zoe", ""))
	require.Equal(t, want[0], got[0])
	require.Equal(t, want[2], got[2])

	o.Format = "parquet"
	made, err = samplepool.New(o)
	require.NoError(t, err)
	columns := t.TempDir()
	require.NoError(t, made.WriteSnapshots(context.Background(), columns))
	require.Equal(t, want, answers(columns, from, to, same), "Parquet")

	p := open(t, r, plain, o.Timezone, "none")
	midnight := (from/day + 1) * day
	events := func(from, to int64) (n int) {
		p.ask(t, from, to, []question{{`{"queryType": "evictions", "view": "events", "limit": 50000}`,
			func(frames data.Frames) { n = len(golden.Rows(frames)) }}})
		return n
	}
	require.Positive(t, events(from, to))
	require.Equal(t, events(from, to), events(from, midnight-1)+events(midnight, to))
}
