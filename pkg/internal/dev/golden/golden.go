// Package golden gives tests the pools and cases of testdata/golden, with the answers that the methodology asks for.
// Only tests import it.
package golden

import (
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// Pools are the names of the golden pools.
var Pools = []string{"pool-a", "pool-b"}

// Dir is testdata/golden.
func Dir(t testing.TB) string {
	t.Helper()
	root, err := checkout.Root()
	require.NoError(t, err)
	return filepath.Join(root, "testdata", "golden")
}

// Pool unpacks a pool's snapshot files, lists and job files into a directory of the test's own.
func Pool(t testing.TB, name string) string {
	t.Helper()
	from, to := filepath.Join(Dir(t), name), t.TempDir()
	entries, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		if plain := strings.TrimSuffix(e.Name(), ".gz"); !strings.HasSuffix(plain, ".json") {
			require.NoError(t, os.WriteFile(filepath.Join(to, plain), Read(t, name, plain), 0o600))
		}
	}
	return to
}

// Parquet unpacks pool-c with month files as polars wrote them, in the place of those of SQLite.
func Parquet(t testing.TB) string {
	t.Helper()
	dir := Pool(t, "pool-c")
	for _, month := range []string{"gpu_state_2025-09", "gpu_state_2025-10"} {
		require.NoError(t, os.Remove(filepath.Join(dir, month+".db")))
		content := Read(t, filepath.Join("pool-c", "parquet"), month+".parquet")
		require.NoError(t, os.WriteFile(filepath.Join(dir, month+".parquet"), content, 0o600))
	}
	return dir
}

// Read returns a pool's file, unpacked.
func Read(t testing.TB, pool, file string) []byte {
	t.Helper()
	path := filepath.Join(Dir(t), pool, file)
	if content, err := os.ReadFile(path); err == nil {
		return content
	}
	packed, err := os.Open(path + ".gz")
	require.NoError(t, err)
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	require.NoError(t, err)
	content, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	return content
}

// Expected reads a pool's expected.json into v.
func Expected(t testing.TB, pool string, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(Read(t, pool, "expected.json"), v))
}

// FixSeed lets properties be tested with the same random values in each run, so that a failure comes from the change
// under test. The flag -rapid.seed draws others, as `go tool mage reliability` does.
func FixSeed() { _ = flag.Set("rapid.seed", "1") } // the flag exists only with rapid

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
	var kind struct{ QueryType string }
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

// Rows returns the rows of all frames, by field name. Nulls are nil, numbers float64.
func Rows(frames data.Frames) (rows []map[string]any) {
	for _, f := range frames {
		n, err := f.RowLen()
		if err != nil {
			panic(err)
		}
		for i := range n {
			row := map[string]any{}
			for _, field := range f.Fields {
				row[field.Name] = plain(field, i)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func plain(field *data.Field, i int) any {
	value, ok := field.ConcreteAt(i)
	if !ok {
		return nil
	}
	switch v := value.(type) {
	case int64:
		return float64(v)
	case int8:
		return float64(v)
	}
	return value
}

// Point is one point of a series.
type Point struct {
	Time  time.Time
	Value float64
}

// Series returns the points of each series, by its labels' values in the order of names, joined by "|".
func Series(frames data.Frames, names ...string) map[string][]Point {
	all := map[string][]Point{}
	for _, f := range frames {
		if len(f.Fields) < 2 {
			continue
		}
		var key []string
		for _, n := range names {
			key = append(key, f.Fields[1].Labels[n])
		}
		k := strings.Join(key, "|")
		for i := range f.Fields[0].Len() {
			at, _ := f.Fields[0].ConcreteAt(i)
			all[k] = append(all[k], Point{at.(time.Time), plain(f.Fields[1], i).(float64)})
		}
	}
	return all
}

// Same reports whether two cells are equal: numbers to a relative 1e-9, times to 1 ms.
func Same(want, got any) bool {
	switch g := got.(type) {
	case float64:
		w, ok := want.(float64)
		return ok && math.Abs(w-g) <= max(1e-9*max(math.Abs(w), math.Abs(g)), 1e-10)
	case time.Time:
		w, err := time.Parse(time.RFC3339Nano, fmt.Sprint(want))
		return err == nil && w.Sub(g).Abs() <= time.Millisecond
	}
	return want == got
}

// Expect is what a case's query must answer.
type Expect struct {
	Columns []string            `json:"columns"`
	Rows    [][]any             `json:"rows"`
	Ordered bool                `json:"ordered"`
	Where   map[string][]any    `json:"where"`
	Series  map[string][][2]any `json:"series"`
	NoData  bool                `json:"noData"`
	Labels  []string            `json:"labels"` // by whose values series are named, joined by " | "
	Notice  []string            `json:"notice"` // texts of which each stands in a notice or a stat
}

// Check compares an answer.
func (e *Expect) Check(t testing.TB, frames data.Frames) {
	t.Helper()
	for _, text := range e.Notice {
		require.Contains(t, Told(frames), text)
	}
	switch {
	case e.NoData:
		require.Len(t, frames, 1, "no data is one frame")
		require.Empty(t, frames[0].Fields, "no data has no fields")
	case e.Series != nil:
		e.checkSeries(t, frames)
	default:
		e.checkRows(t, frames)
	}
}

// Told are the notices of frames, and their statistics with the sentences that explain them, one per line.
func Told(frames data.Frames) string {
	var b strings.Builder
	for _, f := range frames {
		if f.Meta == nil {
			continue
		}
		for _, n := range f.Meta.Notices {
			b.WriteString(n.Text + "\n")
		}
		for _, s := range f.Meta.Stats {
			b.WriteString(s.DisplayName + ": " + s.Description + "\n")
		}
	}
	return b.String()
}

// Warned are the warnings of frames, one per line.
func Warned(frames data.Frames) string {
	var b strings.Builder
	for _, f := range frames {
		for _, n := range f.Meta.Notices {
			if n.Severity == data.NoticeSeverityWarning {
				b.WriteString(n.Text + "\n")
			}
		}
	}
	return b.String()
}

func (e *Expect) checkSeries(t testing.TB, frames data.Frames) {
	t.Helper()
	got := map[string][]Point{}
	for _, f := range frames {
		require.Len(t, f.Fields, 2)
		label := e.labelOf(f.Fields[1].Labels)
		if _, named := e.Series[label]; label == "" && !named { // ungrouped ones can be named by their metric
			label = f.Fields[1].Name
		}
		require.NotContains(t, got, label, "a series is there twice")
		got[label] = Series(data.Frames{f})[""]
	}
	for label, points := range e.Series {
		require.Len(t, got[label], len(points), "points of %s: %v", label, got[label])
		for i, p := range points {
			require.True(t, Same(p[0], got[label][i].Time) && Same(p[1], got[label][i].Value), "%s: want %v, got %v", label, p,
				got[label][i])
		}
	}
	for label, points := range got {
		if _, wanted := e.Series[label]; !wanted {
			require.False(t, slices.ContainsFunc(points, func(p Point) bool { return p.Value != 0 }),
				"unexpected series %s: %v", label, points)
		}
	}
}

// labelOf names a series as cases do: by its group's values in the order of the labels' names, joined by "|".
func (e *Expect) labelOf(labels data.Labels) string {
	var values []string
	if e.Labels != nil {
		for _, name := range e.Labels {
			values = append(values, labels[name])
		}
		return strings.Join(values, " | ")
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if name != "metric" && name != "slots" {
			values = append(values, labels[name])
		}
	}
	return strings.Join(values, "|")
}

func (e *Expect) checkRows(t testing.TB, frames data.Frames) {
	t.Helper()
	rows := slices.DeleteFunc(Rows(frames), func(r map[string]any) bool { return !e.about(r) })
	if len(rows) > 0 {
		for _, c := range e.Columns {
			require.Contains(t, rows[0], c)
		}
	}
	if e.Ordered {
		require.Len(t, rows, len(e.Rows))
		for i, want := range e.Rows {
			require.True(t, e.fits(want, rows[i]), "row %d: want %v, got %v", i, want, rows[i])
		}
		return
	}
	for _, want := range e.Rows {
		at := slices.IndexFunc(rows, func(r map[string]any) bool { return e.fits(want, r) })
		require.GreaterOrEqual(t, at, 0, "no row %v; left: %v", want, rows)
		rows = slices.Delete(rows, at, at+1)
	}
	for _, r := range rows { // a group that is not listed may be there without figures
		for _, c := range e.Columns {
			if n, number := r[c].(float64); number {
				require.Zero(t, n, "unexpected row %v", r)
			}
		}
	}
}

// about reports whether the expected rows are about a row: by default about those of groups, not about totals.
func (e *Expect) about(row map[string]any) bool {
	if e.Where == nil {
		return row["rowType"] == nil || row["rowType"] == "row"
	}
	for column, values := range e.Where {
		if !slices.ContainsFunc(values, func(v any) bool { return Same(v, row[column]) }) {
			return false
		}
	}
	return true
}

// fits reports whether a row has the wanted values in the expected columns. "*" matches any value; a total's name may
// be in any column, and the ids of GPUs in any order.
func (e *Expect) fits(want []any, row map[string]any) bool {
	for i, c := range e.Columns {
		got := row[c]
		switch {
		case want[i] == "*", want[i] == nil && got == "":
		case slices.Equal(e.Where["rowType"], []any{"total"}) && c == e.Columns[0]:
			if !slices.Contains(slices.Collect(maps.Values(row)), want[i]) {
				return false
			}
		case c == "gpuIds":
			if sorted(want[i]) != sorted(got) {
				return false
			}
		case !Same(want[i], got):
			return false
		}
	}
	return true
}

func sorted(list any) string {
	words := strings.FieldsFunc(fmt.Sprint(list), func(r rune) bool { return r == ',' || r == ' ' })
	slices.Sort(words)
	return strings.Join(words, ",")
}

// Window reads a window of two RFC 3339 times.
func Window(t testing.TB, from, to string) pool.Window {
	t.Helper()
	f, err := time.Parse(time.RFC3339Nano, from)
	require.NoError(t, err)
	u, err := time.Parse(time.RFC3339Nano, to)
	require.NoError(t, err)
	return pool.NewWindow(f, u)
}
