package reliability

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
)

// A query that asks for more than an answer may hold is cut with a notice or refused with a remedy, quickly.
func TestLimits(t *testing.T) {
	o := small()
	dir := write(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir, "sliceMinutes": 5})
	list := func(n int, of func(i int) string) string {
		values := make([]string, n)
		for i := range values {
			values[i] = of(i)
		}
		text, err := json.Marshal(values)
		require.NoError(t, err)
		return string(text)
	}
	year := o.End.AddDate(-10, 0, 0)
	for _, c := range []struct {
		what, query, refused, notice string
		from                         time.Time
	}{
		{"rows", `{"queryType": "allocation", "view": "current", "limit": 2}`, "", "limit: showing 2 of ", o.Start},
		{"series", `{"queryType": "allocation", "groupBy": ["machine"], "limit": 2}`, "", "limit: showing 2 of ", o.Start},
		{"GPUs", `{"queryType": "allocation", "view": "stateTimeline", "limit": 2}`, "", "limit: showing 2 of ", o.Start},
		{"curves", `{"queryType": "backfillAvailability", "view": "survival", "groupBy": ["machine"], "limit": 1}`, "",
			"limit: showing 1 of ", o.Start},
		{"a limit above all limits", `{"queryType": "allocation", "view": "current", "limit": 2000000000}`, "", "", o.Start},
		{"a negative limit", `{"queryType": "allocation", "limit": -1}`, "limit -1 is negative", "", o.Start},
		{"cells of allocation", `{"queryType": "allocation", "groupBy": ["machine", "device", "project"], "bucket": "5m", "metrics": ["allocated", "free", "drained", "unclaimed"]}`, "group by less, filter, or choose a longer bucket", "", year},
		{"cells of evictions", `{"queryType": "evictions", "view": "timeseries", "groupBy": ["machine"], "bucket": "5m"}`,
			"group by less, filter, or choose a longer bucket", "", year},
		{"cells of backfill", `{"queryType": "backfillAvailability", "view": "timeseries", "groupBy": ["machine"], "bucket": "5m"}`, "group by less, filter, or choose a longer bucket", "", year},
		{"buckets", `{"queryType": "allocation", "bucket": "5m"}`, "choose a longer one", "", time.UnixMilli(0)},
		{"a pattern's length", `{"queryType": "allocation", "filter": {"devices": ["/` + strings.Repeat("a", 1001) + `/"]}}`,
			"it has 1001 bytes, more than 1000", "", o.Start},
		{"a pattern's cost", `{"queryType": "allocation", "filter": {"devices": ["/` + strings.Repeat(`(.{1000}x)`,
			50) + `/"]}}`, "too costly", "", o.Start},
		{"all patterns' cost", `{"queryType": "allocation", "filter": {"machines": ` + list(2000,
			func(i int) string { return fmt.Sprintf("/m[%d]/", i) }) + `}}`, "too costly", "", o.Start},
		{"nested repetitions", `{"queryType": "allocation", "filter": {"devices": ["/((((a{30}){30}){30}){30})/"]}}`,
			"cannot be used", "", o.Start},
		{"values", `{"queryType": "allocation", "filter": {"machines": ` + list(10_001,
			func(i int) string { return fmt.Sprint("m", i) }) + `}}`, "10001 values are more than 10000", "", o.Start},
		{"many values", `{"queryType": "allocation", "filter": {"machines": ` + list(10_000,
			func(i int) string { return fmt.Sprint("m", i) }) + `}}`, "", "and 9,995 more values", o.Start},
		{"a pattern that backtracks elsewhere", `{"queryType": "userHours", "filter": {"users": ["/(a+)+$/", "/(.*)*x/", "/^(([a-z])+.)+[A-Z]([a-z])+$/"]}}`, "", "", o.Start},
		{"nothing but brackets", strings.Repeat("[", 100_000), "cannot be read", "", o.Start},
		{"nothing but objects", strings.Repeat(`{"a":`, 100_000), "cannot be read", "", o.Start},
	} {
		t.Run(c.what, func(t *testing.T) {
			started := time.Now()
			answer := askText(t, d, c.from, o.End, c.query)
			require.Less(t, time.Since(started), 15*time.Second)
			if c.refused != "" {
				require.ErrorContains(t, answer.Error, c.refused)
				require.Equal(t, backend.StatusBadRequest, answer.Status)
				require.Less(t, len(answer.Error.Error()), 2000)
				return
			}
			require.NoError(t, answer.Error)
			require.Contains(t, notices(answer), c.notice)
			require.Less(t, len(notices(answer)), 5000)
		})
	}
}

// askText asks one query whose text need not be JSON.
func askText(t *testing.T, source backend.QueryDataHandler, from, to time.Time, query string) backend.DataResponse {
	t.Helper()
	r := request(from, to, "{}")
	r.Queries[0].JSON = []byte(query)
	response, err := source.QueryData(t.Context(), r)
	require.NoError(t, err)
	return response.Responses["0"]
}

// Windows that no dashboard has end with an answer or an error, at once.
func TestOddWindows(t *testing.T) {
	o := small()
	d := open(t, o.End, map[string]any{"snapshotDir": write(t, o)})
	for _, w := range [][2]time.Time{
		{time.UnixMilli(0), time.UnixMilli(253402300799999)},
		{time.UnixMilli(math.MinInt64), time.UnixMilli(math.MaxInt64)},
		{time.UnixMilli(-62135596800000), time.UnixMilli(253402300799999)},
		{o.Start, time.UnixMilli(math.MaxInt64)},
		{o.Start, o.Start},
		{o.End, o.Start},
		{time.Time{}, time.Time{}},
	} {
		started := time.Now()
		for i, answer := range ask(t, d, w[0], w[1], views()...) {
			if answer.Error != nil {
				require.Equal(t, backend.StatusBadRequest, answer.Status, "%v: %s: %v", w, views()[i], answer.Error)
			}
		}
		require.Less(t, time.Since(started), 20*time.Second, w)
	}
}

// A request's deadline ends its queries.
func TestDeadline(t *testing.T) {
	o := small()
	o.Start = o.End.AddDate(0, 0, -20)
	dir := write(t, o)
	for range 3 {
		d := open(t, o.End, map[string]any{"snapshotDir": dir})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		for i, answer := range askIn(t, ctx, d, o.Start, o.End, views()...) {
			require.ErrorIs(t, answer.Error, context.DeadlineExceeded, views()[i])
			require.Equal(t, backend.StatusTimeout, answer.Status)
		}
		cancel()
	}
}

var begin = time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC)

const september = "gpu_state_2025-09.db"

// shot is a snapshot of a tiny pool: who holds which GPU follows from its number.
func shot(at time.Time, n int) (rows []snapshotstest.Row) {
	for g := range 3 {
		r := snapshotstest.Row{"Name": fmt.Sprintf("slot1_%d@m", g), "Machine": "m",
			"AssignedGPUs": fmt.Sprintf("GPU-%d", g), "State": "Unclaimed",
			"GPUs_DeviceName": "NVIDIA L40S", "GPUs_GlobalMemoryMb": 45589, "timestamp": at.Format("2006-01-02 15:04:05.000000")}
		if (n/5+g)%3 > 0 {
			r["State"], r["RemoteOwner"], r["GlobalJobId"] = "Claimed", fmt.Sprintf("user%d", n/7%4),
				fmt.Sprintf("ap#%d.0#1756000000", n/5)
		}
		rows = append(rows, r)
	}
	return rows
}

// The collector's clock is set forward and back, runs at another time for a while, or one snapshot is of another year:
// rows are out of order. The answers are those of the same rows in the order of time.
func TestClockSetBack(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	rounds := 6
	if *long {
		rounds = 100
	}
	for round := range rounds {
		const days = 20
		var rows []snapshotstest.Row
		first, length := random.IntN(days*96), 1+random.IntN(1<<random.IntN(9))
		by := time.Duration(random.IntN(1<<random.IntN(12))+1) * 15 * time.Minute
		if round%2 == 1 {
			by = -by
		}
		if round%6 == 4 {
			by = 74 * 365 * 24 * time.Hour
		}
		by += 7 * time.Minute // no snapshot twice
		for n := range days * 96 {
			at := begin.Add(time.Duration(n) * 15 * time.Minute)
			if first <= n && n < first+length {
				at = at.Add(by)
			}
			rows = append(rows, shot(at, n)...)
		}
		what := fmt.Sprintf("%d snapshots from number %d on are %v off", length, first, by)
		written := t.TempDir()
		cache, now := t.TempDir(), begin.AddDate(0, 0, days)
		odd := open(t, now, map[string]any{"snapshotDir": written, "cacheDir": cache})
		db := snapshotstest.Open(t, written, september, snapshotstest.Schema,
			"journal_mode="+[]string{"DELETE", "WAL"}[round%2])
		half := len(rows) / 6 * 3
		snapshotstest.Append(t, db, snapshotstest.Schema, rows[:half]...)
		require.NoError(t, ask(t, odd, begin, now, `{"queryType": "allocation"}`)[0].Error)
		snapshotstest.Append(t, db, snapshotstest.Schema, rows[half:]...)
		ordered := slices.Clone(rows)
		slices.SortStableFunc(ordered, func(a, b snapshotstest.Row) int {
			return cmp.Compare(a["timestamp"].(string), b["timestamp"].(string))
		})
		sorted := t.TempDir()
		snapshotstest.Write(t, sorted, map[string][]snapshotstest.Row{september: ordered})
		queries := []string{`{"queryType": "allocation", "view": "summary"}`, `{"queryType": "userHours"}`,
			`{"queryType": "allocation", "view": "stateTimeline"}`, `{"queryType": "evictions"}`}
		// the whole month first, as reading ahead does: what no scan has come upon cannot be known
		even := open(t, now, map[string]any{"snapshotDir": sorted})
		for i, w := range [][2]time.Time{{begin, now}, {now.AddDate(0, 0, -2), now},
			{begin.AddDate(0, 0, 9), begin.AddDate(0, 0, 12)}, {begin, now}} {
			if i == 3 { // a restart
				odd = open(t, now, map[string]any{"snapshotDir": written, "cacheDir": cache})
			}
			started := time.Now()
			got := ask(t, odd, w[0], w[1], queries...)
			require.Less(t, time.Since(started), 20*time.Second, what)
			want := ask(t, even, w[0], w[1], queries...)
			for i, q := range queries {
				require.Equal(t, figures(t, want[i]), figures(t, got[i]), "%s, %s – %s: %s", what, w[0], w[1], q)
			}
		}
	}
	figure("The collector's clock set back or forward", "%d files, by 7 minutes to 74 years, for one snapshot to days: "+
		"every answer the same as for the rows in order of time", rounds)
}

// quarters are n snapshots from the beginning onward.
func quarters(n int) (rows []snapshotstest.Row) {
	for i := range n {
		rows = append(rows, shot(begin.Add(time.Duration(i)*15*time.Minute), i)...)
	}
	return rows
}

// Rows whose timestamp cannot be read are left out, with a notice, also where they are a file's first or last.
func TestUnreadableTimestamps(t *testing.T) {
	clean, now := quarters(3*96), begin.AddDate(0, 0, 3)
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: clean})
	want := ask(t, open(t, now, map[string]any{"snapshotDir": dir}), begin, now, views()...)
	for _, text := range []any{"", "soon", "0000-00-00 00:00:00", "zzz", 12, nil, "2025-09-31 25:61:00", "9999-99-99",
		[]byte{0xff, 0x00}} {
		for _, at := range []int{0, 300, len(clean) / 3, len(clean)} { // len / 3: at midnight
			odd := snapshotstest.Row{"Name": "slot1_1@m", "Machine": "m", "AssignedGPUs": "GPU-1", "State": "Claimed",
				"timestamp": text}
			dir := t.TempDir()
			snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: slices.Insert(slices.Clone(clean), at, odd)})
			got := ask(t, open(t, now, map[string]any{"snapshotDir": dir}), begin, now, views()...)
			for i, q := range views() {
				require.Equal(t, figures(t, want[i]), figures(t, got[i]), "%v at %d: %s", text, at, q)
				require.Contains(t, notices(got[i]), "1 rows have no readable timestamp, such as ", "%v at %d: %s", text, at, q)
				require.Equal(t, 1, strings.Count(notices(got[i]), "no readable timestamp"), "%v at %d: %s", text, at, q)
			}
		}
	}
	dir = t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: {{"Name": "slot1_1@m", "Machine": "m",
		"timestamp": "soon"}}})
	answer := ask(t, open(t, now, map[string]any{"snapshotDir": dir}), begin, now, views()[0])[0]
	require.True(t, empty(answer.Frames))
	require.Contains(t, notices(answer), september+": none of its rows has a readable timestamp")
}

// A snapshot of another millennium costs no time: reading ahead does not try each day until then.
func TestSnapshotOfTheFuture(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	rows := quarters(3 * 96)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: append(slices.Clone(rows),
		shot(begin.AddDate(7000, 0, 0), 1)...)})
	now := begin.AddDate(0, 0, 3)
	d := open(t, now, map[string]any{"snapshotDir": dir, "cacheDir": cache})
	health, err := d.CheckHealth(t.Context(), &backend.CheckHealthRequest{
		PluginContext: backend.PluginContext{User: &backend.User{Role: "Admin"}}})
	require.NoError(t, err)
	require.Contains(t, health.Message, "That is in the future")
	started := time.Now()
	answer := ask(t, d, begin, begin.AddDate(7500, 0, 0), `{"queryType": "allocation", "view": "health"}`)[0]
	require.NoError(t, answer.Error)
	require.Less(t, time.Since(started), 10*time.Second)
	for _, of := range []string{"segment", "usage"} { // a day has one of each
		files, err := filepath.Glob(filepath.Join(cache, "gpureports-segments", "*."+of))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		require.Less(t, len(files), 10)
	}

	plain := t.TempDir()
	snapshotstest.Write(t, plain, map[string][]snapshotstest.Row{september: rows})
	want := ask(t, open(t, now, map[string]any{"snapshotDir": plain}), begin, now, views()...)
	got := ask(t, d, begin, now, views()...)
	for i, q := range views() {
		require.Equal(t, figures(t, want[i]), figures(t, got[i]), q)
	}
}

// docs/dependencies.md names all dependencies of the project, and no others.
func TestDependenciesAreListed(t *testing.T) {
	root, err := checkout.Root()
	require.NoError(t, err)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		return string(text)
	}
	asked := map[string]bool{}
	for _, line := range strings.Split(read("go.mod"), "\n") {
		if m := regexp.MustCompile(`^\t(\S+) v\S+$`).FindStringSubmatch(line); m != nil {
			asked[m[1]] = true
		}
	}
	var packages struct{ Dependencies, DevDependencies map[string]string }
	require.NoError(t, json.Unmarshal([]byte(read("package.json")), &packages))
	for name := range packages.Dependencies {
		asked[name] = true
	}
	for name := range packages.DevDependencies {
		asked[name] = true
	}
	require.Greater(t, len(asked), 50)
	document := read("docs/dependencies.md")
	listed := map[string]bool{}
	for _, line := range strings.Split(document, "\n") {
		switch {
		case strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| module") && !strings.HasPrefix(line, "| package"):
			name, _, _ := strings.Cut(line[2:], " |")
			for _, n := range strings.Split(name, ",") {
				listed[strings.Trim(n, " *")] = true
			}
		case strings.HasPrefix(line, "- "), strings.HasPrefix(line, "  "):
			_, names, found := strings.Cut(line, ": ")
			if !found {
				names = line
			}
			for _, n := range strings.Split(names, ",") {
				if n = strings.TrimSpace(n); n != "" {
					listed[n] = true
				}
			}
		}
	}
	require.Equal(t, asked, listed)
}
