package golden

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// Case is a hand-made case: rows, settings, rows of job_pressure and job ads, and queries with their answers.
type Case struct {
	Name     string           `json:"name"`
	Why      string           `json:"why"`
	Defaults map[string]any   `json:"defaults"`
	Rows     []map[string]any `json:"rows"`
	Settings struct {
		Timezone      any               `json:"timezone"` // a name, or a list as in the settings
		SliceMinutes  int               `json:"sliceMinutes"`
		CHTCOwned     []string          `json:"chtc_owned"`
		ExcludedHosts map[string]string `json:"excluded_hosts"`
	} `json:"settings"`
	Pressure []map[string]any `json:"pressure"`
	Ads      []Ad             `json:"ads"`
	Queries  []CaseQuery      `json:"queries"`
}

// Ad is a job ad: kind history or epoch, and the document.
type Ad struct {
	Kind string         `json:"kind"`
	Ad   map[string]any `json:"ad"`
}

// CaseQuery is a query of a case.
type CaseQuery struct {
	Window [2]string       `json:"window"`
	Jobs   string          `json:"jobs"` // "ads": with the case's ads
	Query  json.RawMessage `json:"query"`
	Expect Expect          `json:"expect"`
}

// Kind is the query's kind.
func (q *CaseQuery) Kind() string {
	var kind struct {
		QueryType string `json:"queryType"`
	}
	if err := json.Unmarshal(q.Query, &kind); err != nil {
		return err.Error()
	}
	return kind.QueryType
}

// Cases returns the cases of all lists with a query of one of the kinds; of their queries only those.
func Cases(t testing.TB, kinds ...string) (found []Case) {
	t.Helper()
	lists, err := filepath.Glob(filepath.Join(Dir(t), "cases*.json"))
	require.NoError(t, err)
	for _, path := range lists {
		found = append(found, casesOf(t, path, kinds)...)
	}
	return found
}

func casesOf(t testing.TB, path string, kinds []string) (found []Case) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var all struct {
		Defaults map[string]any `json:"defaults"`
		Cases    []Case         `json:"cases"`
	}
	require.NoError(t, json.Unmarshal(content, &all))
	for _, c := range all.Cases {
		c.Queries = slices.DeleteFunc(c.Queries, func(q CaseQuery) bool { return !slices.Contains(kinds, q.Kind()) })
		if len(c.Queries) > 0 {
			if c.Settings.Timezone == nil {
				c.Settings.Timezone = "UTC"
			}
			c.Defaults = merged(all.Defaults, c.Defaults)
			found = append(found, c)
		}
	}
	return found
}

var (
	columns = []string{"Name TEXT", "AssignedGPUs TEXT", "AvailableGPUs TEXT", "State TEXT", "GPUs_DeviceName TEXT",
		"GPUs_GlobalMemoryMb BIGINT", "PrioritizedProjects TEXT", "GPUsAverageUsage FLOAT", "Machine TEXT",
		"RemoteOwner TEXT", "GlobalJobId TEXT", "timestamp DATETIME"}
	newerColumns = []string{"PreventJobsReason TEXT", "Disk INTEGER"}
	roomColumns  = []string{"Cpus INTEGER", "Memory INTEGER", "SlotType TEXT"} // of files that have a row with a SlotType
	// of files that have a row with a value; without a type, so that a text stays one
	otherColumns = []string{"SlotBrokenReason TEXT", "BackfillSlot"}
)

// Write makes the case's month files, lists and job file in a directory of the test's own.
func (c *Case) Write(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string][]map[string]any{}
	definitions := columns
	for _, row := range c.Rows {
		row = merged(c.Defaults, row)
		name, given := row["file"].(string)
		if !given {
			name = "gpu_state_" + row["timestamp"].(string)[:7] + ".db"
		}
		files[name] = append(files[name], row)
		if _, newer := row["PreventJobsReason"]; newer && len(definitions) == len(columns) {
			definitions = append(slices.Clone(columns), newerColumns...)
		}
	}
	for name, rows := range files {
		definitions := definitions
		if slices.ContainsFunc(rows, func(row map[string]any) bool { return row["SlotType"] != nil }) {
			definitions = slices.Concat(definitions, roomColumns)
		}
		for _, column := range otherColumns {
			name := strings.Fields(column)[0]
			if slices.ContainsFunc(rows, func(row map[string]any) bool { return row[name] != nil }) {
				definitions = append(slices.Clip(definitions), column)
			}
		}
		writeTable(t, filepath.Join(dir, name), "gpu_state", definitions, valuesOf(definitions, rows))
	}
	if len(c.Settings.CHTCOwned) > 0 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "chtc_owned"),
			[]byte(strings.Join(c.Settings.CHTCOwned, "\n")+"\n"), 0o600))
	}
	if len(c.Settings.ExcludedHosts) > 0 {
		text := "excluded_hosts:\n"
		for pattern, reason := range c.Settings.ExcludedHosts {
			text += fmt.Sprintf("  %s: %s\n", pattern, reason)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "masked_hosts.yaml"), []byte(text), 0o600))
	}
	c.writePressure(t, dir)
	if len(c.Ads) > 0 {
		WriteAds(t, filepath.Join(dir, "jobs.db"), c.Ads)
	}
	return dir
}

var pressureColumns = []string{"GlobalJobId TEXT NOT NULL", "ScheddName TEXT", "Owner TEXT", "RequestGPUs REAL",
	"RequestCPUs REAL", "RequestMemory REAL", "RequestGPUMemory REAL",
	"QDate INTEGER", "ChtcProjects TEXT", "first_seen INTEGER NOT NULL", "last_seen INTEGER NOT NULL"}

// writePressure makes the queue files, each row in that of the month of its first_seen unless it names another one. A
// file has JobState if a row of it does; a row that is `empty` makes its file only.
func (c *Case) writePressure(t testing.TB, dir string) {
	t.Helper()
	files := map[string][]map[string]any{}
	for _, row := range c.Pressure {
		name, given := row["file"].(string)
		if !given {
			name = "job_pressure_" + time.Unix(int64(row["first_seen"].(float64)), 0).UTC().Format("2006-01") + ".db"
		}
		files[name] = append(files[name], row)
	}
	for name, rows := range files {
		definitions := pressureColumns
		if slices.ContainsFunc(rows, func(row map[string]any) bool { _, has := row["JobState"]; return has }) {
			definitions = append(slices.Clone(definitions), "JobState TEXT")
		}
		rows = slices.DeleteFunc(rows, func(row map[string]any) bool { return row["empty"] != nil })
		all := valuesOf(definitions, rows)
		if strings.HasSuffix(name, ".parquet") {
			kinds := map[string]parquet.Kind{"TEXT": parquet.Text, "REAL": parquet.Real, "INTEGER": parquet.Integer}
			var fields []parquet.Field
			for _, d := range definitions {
				fields = append(fields, parquet.Field{Name: strings.Fields(d)[0], Kind: kinds[strings.Fields(d)[1]]})
			}
			content, err := parquet.Encode(fields, all)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
			continue
		}
		writeTable(t, filepath.Join(dir, name), "job_pressure", definitions, all)
	}
}

// WriteAds makes a job file.
func WriteAds(t testing.TB, path string, ads []Ad) {
	t.Helper()
	var all [][]any
	for _, a := range ads {
		document, err := json.Marshal(a.Ad)
		require.NoError(t, err)
		all = append(all, []any{a.Kind, a.Ad["GlobalJobId"], int64(a.Ad["RecordTime"].(float64)), string(document)})
	}
	writeTable(t, path, "ads", []string{"kind TEXT", "GlobalJobId TEXT", "RecordTime INTEGER", "ad TEXT"}, all)
}

// merged are defaults, and values that replace them.
func merged(defaults, values map[string]any) map[string]any {
	all := map[string]any{}
	maps.Copy(all, defaults)
	maps.Copy(all, values)
	return all
}

// valuesOf puts rows into the order of columns.
func valuesOf(definitions []string, rows []map[string]any) [][]any {
	all := make([][]any, len(rows))
	for n, row := range rows {
		for _, d := range definitions {
			all[n] = append(all[n], row[strings.Fields(d)[0]])
		}
	}
	return all
}

// writeTable makes a SQLite file with one table.
func writeTable(t testing.TB, path, table string, definitions []string, rows [][]any) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	_, err = db.Exec("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY; CREATE TABLE " + table + "(" +
		strings.Join(definitions, ", ") + ")")
	require.NoError(t, err)
	insert := "INSERT INTO " + table + " VALUES (?" + strings.Repeat(",?", len(definitions)-1) + ")"
	for _, values := range rows {
		_, err = db.Exec(insert, values...)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
}
