// Package runstest opens directories of snapshots for the tests of the kinds that are about runs.
package runstest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Source is a directory of snapshot files, opened.
type Source struct {
	*stores.Stores
	Env query.Env
}

// Open opens a directory; it is closed when the test ends.
func Open(t testing.TB, dir string, zone any) Source {
	t.Helper()
	setting, err := json.Marshal(zone)
	require.NoError(t, err)
	z, err := localtime.Parse(setting)
	require.NoError(t, err)
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	lists, err := d.Lists(snapshots.ListFiles{})
	require.NoError(t, err)
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	tl := timeline.New(timeline.Options{Source: registry.OpenDir(d, z), MaxBytes: 1 << 28})
	s := stores.New(tl, stores.Divide(512<<20))
	s.Queues = queues.NewStore(queues.Options{Root: root, Path: dir, Names: tl.Names, MaxBytes: 1 << 26,
		Parquet: registry.QueueRows})
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.NoError(t, root.Close())
	})
	return Source{s, query.Env{Zone: z, SliceMinutes: 15, Lists: lists}}
}

// Ask answers a query in JSON; now is the window's end.
func (s Source) Ask(t testing.TB, ads jobs.Source, w pool.Window, text string) data.Frames {
	t.Helper()
	m, err := query.Parse([]byte(text))
	require.NoError(t, err)
	frames, err := s.Answer(context.Background(), ads, query.Request{Model: m, Window: w, IntervalMs: 60_000, Now: w.To})
	require.NoError(t, err, text)
	return frames
}

// Answer answers a request with these job ads.
func (s Source) Answer(ctx context.Context, ads jobs.Source, r query.Request) (data.Frames, error) {
	with := *s.Stores
	with.Ads = ads
	return kinds.Answer(ctx, &with, s.Env, r)
}

// Ads are the job ads of files of a golden pool.
func Ads(t testing.TB, name string, files ...string) jobs.Source {
	t.Helper()
	m := jobstest.NewMemory()
	for _, f := range files {
		m.Add(bytes.Split(bytes.TrimSpace(golden.Read(t, name, f)), []byte("\n"))...)
	}
	return m
}

// Sources are the job documents of a golden pool that a variant of expected.json names; history comes in two schemas.
func Sources(t testing.TB, name, variant string) []jobs.Source {
	t.Helper()
	const legacy, refactored, epochs = "jobs_history_legacy.jsonl", "jobs_history_refactored.jsonl", "jobs_epochs.jsonl"
	switch variant {
	case "history":
		return []jobs.Source{Ads(t, name, legacy), Ads(t, name, refactored)}
	case "epochs":
		return []jobs.Source{Ads(t, name, epochs)}
	case "both":
		return []jobs.Source{Ads(t, name, refactored, epochs), Ads(t, name, legacy, epochs)}
	}
	return []jobs.Source{nil}
}

// AdsOf are a case's ads, for a query that uses them.
func AdsOf(t testing.TB, c *golden.Case, q *golden.CaseQuery) jobs.Source {
	t.Helper()
	if q.Jobs != "ads" {
		return nil
	}
	m := jobstest.NewMemory()
	for _, a := range c.Ads {
		document, err := json.Marshal(a.Ad)
		require.NoError(t, err)
		m.Add(document)
	}
	return m
}

// Growing is a directory into which a sample pool's snapshots come one after another.
type Growing struct {
	t     testing.TB
	Dir   string
	shots []collected
	next  int
	open  map[string]*sql.DB // by month
	rows  map[string]int     // that are there
}

// collected is a snapshot of the pool: rows of a month's file.
type collected struct {
	month string
	time  time.Time
	rows  int
}

// Grow makes a directory without snapshots, and with the lists of a sample pool.
func Grow(t testing.TB, p *samplepool.Pool) *Growing {
	t.Helper()
	full := t.TempDir()
	require.NoError(t, p.WriteSnapshots(t.Context(), full))
	g := &Growing{t: t, Dir: t.TempDir(), open: map[string]*sql.DB{}, rows: map[string]int{}}
	for _, name := range []string{"chtc_owned", "masked_hosts.yaml"} {
		list, err := os.ReadFile(filepath.Join(full, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(g.Dir, name), list, 0o600))
	}
	for s, err := range p.Snapshots(t.Context()) {
		require.NoError(t, err)
		g.shots = append(g.shots, collected{s.Month, s.Time, len(s.Rows)})
		if g.open[s.Month] != nil {
			continue
		}
		name := snapshots.MonthFile(s.Month, "db")
		db, err := sql.Open("sqlite", filepath.Join(g.Dir, name))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		db.SetMaxOpenConns(1)
		g.open[s.Month] = db
		g.exec(s.Month, "ATTACH ? AS whole", filepath.Join(full, name))
		g.exec(s.Month, "CREATE TABLE gpu_state AS SELECT * FROM whole.gpu_state LIMIT 0")
	}
	return g
}

func (g *Growing) exec(month, statement string, values ...any) {
	g.t.Helper()
	_, err := g.open[month].ExecContext(g.t.Context(), statement, values...)
	require.NoError(g.t, err, statement)
}

// Add adds snapshots, and returns the time of the last one.
func (g *Growing) Add(n int) time.Time {
	for ; n > 0; n-- {
		s := g.shots[g.next]
		g.exec(s.month, "INSERT INTO gpu_state SELECT * FROM whole.gpu_state LIMIT ? OFFSET ?", s.rows, g.rows[s.month])
		g.rows[s.month] += s.rows
		g.next++
	}
	return g.shots[g.next-1].time
}

// Edit changes rows of an earlier time.
func (g *Growing) Edit(random *rand.Rand) {
	s := g.shots[random.IntN(g.next)]
	g.exec(s.month, "UPDATE gpu_state SET State = 'Unclaimed', GlobalJobId = NULL, RemoteOwner = NULL "+
		"WHERE rowid % 7 = 3 AND rowid BETWEEN ? AND ?", random.IntN(g.rows[s.month]), g.rows[s.month])
}

// Stamp is how expected.json writes times.
const Stamp = "2006-01-02T15:04:05.000000Z"

// Question is a window of a source, asked about with these job ads.
type Question struct {
	Source
	Ads    jobs.Source
	Window pool.Window
	Zone   string
}

// Rows are the rows of the answer to a query in JSON.
func (q *Question) Rows(t testing.TB, format string, values ...any) []map[string]any {
	t.Helper()
	return golden.Rows(q.Ask(t, q.Ads, q.Window, fmt.Sprintf(format, values...)))
}

// EachWindow checks each window of a golden pool, with each kind of job ads that its expected.json has answers for.
func EachWindow[E any](t *testing.T, name string, check func(t *testing.T, q *Question, want *E)) {
	var expected struct {
		Timezone string
		Windows  map[string]struct {
			Common struct{ Window struct{ Start, End string } }
			Jobs   map[string]*E
		}
	}
	golden.Expected(t, name, &expected)
	require.GreaterOrEqual(t, len(expected.Windows), 2)
	s := Open(t, golden.Pool(t, name), expected.Timezone)
	for window, e := range expected.Windows {
		w := golden.Window(t, e.Common.Window.Start, e.Common.Window.End)
		require.GreaterOrEqual(t, len(e.Jobs), 2)
		for variant, want := range e.Jobs {
			for i, ads := range Sources(t, name, variant) {
				t.Run(fmt.Sprintf("%s/%s/%s/%d", name, window, variant, i), func(t *testing.T) {
					check(t, &Question{s, ads, w, expected.Timezone}, want)
				})
			}
		}
	}
}

// Groups are figures by the name of a group.
type Groups = map[string]map[string]any

// Splits are the figures of an object of expected.json by grouping: `all` has none, `byDevice` has the device.
func Splits(t testing.TB, object map[string]json.RawMessage) map[string]Groups {
	t.Helper()
	splits := map[string]Groups{}
	for key, raw := range object {
		name, by := strings.CutPrefix(key, "by")
		if key != "all" && !by {
			continue
		}
		groups, grouping := Groups{}, ""
		if by {
			require.NoError(t, json.Unmarshal(raw, &groups), key)
			grouping = strings.ToLower(name[:1]) + name[1:]
		} else {
			figures := map[string]any{}
			require.NoError(t, json.Unmarshal(raw, &figures))
			groups[""] = figures
		}
		require.NotEmpty(t, groups, key)
		splits[grouping] = Groups{}
		for group, figures := range groups {
			if grouping == "category" { // a machine type can have the name of one
				group = Named(group)
			}
			splits[grouping][group] = figures
		}
	}
	require.Greater(t, len(splits), 2)
	return splits
}

// Named is a group of expected.json as answers name it.
func Named(group string) string {
	if category, ok := pool.ParseCategory(group); ok {
		return category.String()
	}
	return group
}

// Summary is the table of a kind without totals, by the values of groupings, joined by "|". An empty one is none.
func (q *Question) Summary(t testing.TB, kind string, by ...string) Groups {
	t.Helper()
	by = slices.DeleteFunc(by, func(grouping string) bool { return grouping == "" })
	list, err := json.Marshal(append([]string{}, by...))
	require.NoError(t, err)
	groups := Groups{}
	for _, row := range q.Rows(t, `{"queryType": %q, "view": "summary", "groupBy": %s, "totals": false}`, kind, list) {
		var texts []string
		for _, grouping := range by {
			texts = append(texts, fmt.Sprint(row[grouping]))
		}
		name := strings.Join(texts, "|")
		require.NotContains(t, groups, name, "a group twice")
		groups[name] = row
	}
	return groups
}

// CheckGroups compares metrics of groups.
func CheckGroups(t testing.TB, what string, want, got Groups, metrics []string) {
	t.Helper()
	require.Len(t, got, len(want), what)
	for group, figures := range want {
		require.Contains(t, got, group, what)
		for _, m := range metrics {
			require.Contains(t, figures, m)
			require.True(t, golden.Same(figures[m], got[group][m]), "%s %s %s: want %v, got %v", what, group, m, figures[m],
				got[group][m])
		}
	}
}

// IsDigest compares the lines of a list with the digest that stands for a long one, and reports whether one does.
func IsDigest(t testing.TB, want json.RawMessage, lines []string) bool {
	t.Helper()
	var digest struct {
		Count  int
		SHA256 string `json:"sha256"`
		First  []string
	}
	if json.Unmarshal(want, &digest) != nil {
		return false
	}
	slices.Sort(lines)
	require.Len(t, lines, digest.Count)
	require.Equal(t, digest.First, lines[:len(digest.First)])
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	require.Equal(t, digest.SHA256, hex.EncodeToString(sum[:]))
	return true
}

// CheckCurve compares a survival curve: where it begins and ends, and its share and bounds at some ages in hours.
func CheckCurve(t testing.TB, rows []map[string]any, from, until any, at [][]any) {
	t.Helper()
	require.True(t, golden.Same(from, rows[0]["hours"]), "from %v, got %v", from, rows[0]["hours"])
	last := rows[len(rows)-1]["hours"]
	require.True(t, golden.Same(until, last), "until %v, got %v", until, last)
	require.NotEmpty(t, at)
	for _, point := range at {
		row := rows[0]
		for _, r := range rows {
			if r["hours"].(float64) <= point[0].(float64) {
				row = r
			}
		}
		for i, field := range []string{"survival", "low", "high"} {
			require.True(t, golden.Same(point[i+1], row[field]), "%s at %v h: want %v, got %v", field, point[0], point[i+1],
				row[field])
		}
	}
}
