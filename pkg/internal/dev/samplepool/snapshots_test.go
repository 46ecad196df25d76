package samplepool

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// The files hold what Snapshots yields, in the tables of methodology section 1: an older month, and a newer one.
func TestMonthFiles(t *testing.T) {
	o := days(Default(), 5)
	p, err := New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, p.WriteSnapshots(t.Context(), dir))

	files := map[string]*sql.DB{}
	rows := map[string]*sql.Rows{}
	for shot, err := range p.Snapshots(t.Context()) {
		require.NoError(t, err)
		if files[shot.Month] == nil {
			db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "gpu_state_"+shot.Month+".db")+"?mode=ro")
			require.NoError(t, err)
			defer db.Close()
			files[shot.Month] = db
			query := `SELECT Name, AssignedGPUs, AvailableGPUs, State, GPUs_DeviceName, GPUs_GlobalMemoryMb, PrioritizedProjects, GPUsAverageUsage,
				Machine, RemoteOwner, GlobalJobId, CAST(timestamp AS TEXT), `
			if shot.Month == "2025-10" {
				query += "NULL, NULL, NULL, NULL"
			} else {
				query += "PreventJobsReason, Cpus, Memory, SlotType"
			}
			rows[shot.Month], err = db.Query(query + " FROM gpu_state ORDER BY rowid")
			require.NoError(t, err)
			defer rows[shot.Month].Close()
		}
		for _, want := range shot.Rows {
			require.True(t, rows[shot.Month].Next())
			var text [12]sql.NullString
			var memory, cpus, room sql.NullInt64
			var usage sql.NullFloat64
			require.NoError(t, rows[shot.Month].Scan(&text[0], &text[1], &text[2], &text[3], &text[4], &memory, &text[5], &usage,
				&text[6], &text[7], &text[8], &text[9], &text[10], &cpus, &room,
				&text[11]))
			got := Row{
				Name: text[0].String, AssignedGPUs: text[1].String, AvailableGPUs: text[2].String, State: text[3].String,
				DeviceName: text[4].String,
				MemoryMB:   int(memory.Int64), PrioritizedProjects: text[5].String, ProjectsNull: !text[5].Valid,
				AverageUsage: usage.Float64, UsageReported: usage.Valid,
				Machine: text[6].String, RemoteOwner: text[7].String, GlobalJobID: text[8].String,
				PreventJobsReason: text[10].String, Cpus: int(cpus.Int64), Memory: int(room.Int64), SlotType: text[11].String,
			}
			if shot.Month == "2025-10" {
				want.PreventJobsReason, want.Cpus, want.Memory, want.SlotType = "", 0, 0, ""
			}
			if got != want {
				t.Fatal(cmp.Diff(want, got))
			}
			require.Equal(t, shot.Timestamp, text[9].String)
			for i, is := range text[:5] {
				require.Equal(t, is.Valid, is.String != "", "an empty text of column %d is NULL", i)
			}
		}
	}
	require.Len(t, files, 2)
	for month, left := range rows {
		require.False(t, left.Next(), "%s holds more rows", month)
		require.NoError(t, left.Err())
	}
	columns := []string{
		"Name TEXT", "AssignedGPUs TEXT", "AvailableGPUs TEXT", "State TEXT", "GPUs_DeviceName TEXT",
		"GPUs_GlobalMemoryMb BIGINT",
		"PrioritizedProjects TEXT", "GPUsAverageUsage FLOAT", "Machine TEXT", "RemoteOwner TEXT", "GlobalJobId TEXT",
		"timestamp DATETIME",
	}
	require.Equal(t, columns, columnsOf(t, files["2025-10"]))
	require.Equal(t, append(append(append([]string{}, columns[:9]...), "PreventJobsReason TEXT"),
		append(columns[9:], "Disk INTEGER", "Cpus INTEGER", "Memory INTEGER", "SlotType TEXT")...),
		columnsOf(t, files["2025-11"]))
}

func columnsOf(t *testing.T, db *sql.DB) (columns []string) {
	rows, err := db.Query("SELECT name || ' ' || type FROM pragma_table_info('gpu_state')")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var column string
		require.NoError(t, rows.Scan(&column))
		columns = append(columns, column)
	}
	require.NoError(t, rows.Err())
	return columns
}

func TestLists(t *testing.T) {
	p, err := New(days(Default(), 1))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, p.WriteSnapshots(t.Context(), dir))
	owned, err := os.ReadFile(filepath.Join(dir, "chtc_owned"))
	require.NoError(t, err)
	require.Equal(t, "# machines that CHTC "+
		"owns\ngreekgpu4000.chtc.example.org\ngreekgpu4005.chtc.example.org\ngreekgpu4010.chtc.example.org\n"+
		"retiredgpu4000.chtc.example.org\n", string(owned))
	masked, err := os.ReadFile(filepath.Join(dir, "masked_hosts.yaml"))
	require.NoError(t, err)
	var list struct {
		ExcludedHosts map[string]string `yaml:"excluded_hosts"`
	}
	require.NoError(t, yaml.Unmarshal(masked, &list))
	require.Equal(t, map[string]string{"voyles2011": "Prioritized by a hard-coded start expression"}, list.ExcludedHosts)
}
