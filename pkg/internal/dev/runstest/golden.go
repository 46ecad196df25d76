package runstest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

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
