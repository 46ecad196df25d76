package report

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/net/html"
	_ "modernc.org/sqlite" // driver

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/pool"
)

func TestMain(m *testing.M) {
	backend.Logger = log.NewNullLogger()
	log.DefaultLogger = backend.Logger
	goleak.VerifyTestMain(m)
}

var now = time.Date(2025, 10, 2, 0, 10, 0, 0, time.UTC)

// open opens a data source on a directory of month files.
func open(t testing.TB, dir string) *plugin.Datasource {
	jsonData, err := json.Marshal(map[string]any{"snapshotDir": dir, "jobs": "sqlite"})
	require.NoError(t, err)
	source := plugin.Open(backend.DataSourceInstanceSettings{Type: plugin.ID, JSONData: jsonData},
		func() time.Time { return now })
	t.Cleanup(source.Dispose)
	return source
}

// poolA makes the report of the golden pool, over all of it.
func poolA(t *testing.T) *Report {
	var want struct {
		Windows map[string]struct {
			Common struct {
				Window struct{ Start, End time.Time }
			}
		}
	}
	golden.Expected(t, "pool-a", &want)
	window := want.Windows["whole"].Common.Window
	r, err := Make(t.Context(), open(t, golden.Pool(t, "pool-a")), Options{From: window.Start, To: window.End, Now: now})
	require.NoError(t, err)
	require.Zero(t, r.Failed)
	return r
}

func TestGolden(t *testing.T) {
	r := poolA(t)
	for name, write := range map[string]func(*bytes.Buffer) error{
		"pool-a.txt":    func(b *bytes.Buffer) error { return r.Text(b, 100) },
		"pool-a-80.txt": func(b *bytes.Buffer) error { return r.Text(b, 80) },
		"pool-a.html":   func(b *bytes.Buffer) error { return r.HTML(b) },
	} {
		var b bytes.Buffer
		require.NoError(t, write(&b))
		path := filepath.Join("testdata", name)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), b.String(), name)
	}
}

func sectionOf(t *testing.T, r *Report, key string) Section {
	i := slices.IndexFunc(r.Sections, func(s Section) bool { return s.Key == key })
	require.GreaterOrEqual(t, i, 0)
	return r.Sections[i]
}

func TestOneSection(t *testing.T) {
	source := open(t, golden.Pool(t, "pool-a"))
	o := Options{From: now.Add(-24 * time.Hour), To: now, Now: now, Sections: []string{"methodology", "real"},
		Title: "Pool A"}
	r, err := Make(t.Context(), source, o)
	require.NoError(t, err)
	require.Equal(t, []string{"real", "methodology"}, []string{r.Sections[0].Key, r.Sections[1].Key})
	require.Equal(t, "Pool A", r.Title)
	o.Sections = []string{"real", "weather"}
	_, err = Make(t.Context(), source, o)
	require.ErrorContains(t, err, `section "weather" is unknown: use real, backfill, `)
	require.Equal(t, pool.FaultQuery, pool.FaultOf(err))
	o.From, o.Sections = now, nil
	_, err = Make(t.Context(), source, o)
	require.ErrorContains(t, err, "must be after its start")
}

// Times are of the report's zone, and the charts' buckets too.
func TestZone(t *testing.T) {
	chicago, err := time.LoadLocation("America/Chicago")
	require.NoError(t, err)
	r, err := Make(t.Context(), open(t, golden.Pool(t, "pool-a")),
		Options{From: now.Add(-24 * time.Hour), To: now, Now: now, Zone: chicago, Sections: []string{"gaps"}})
	require.NoError(t, err)
	require.Equal(t, "2025-09-30 19:10 to 2025-10-01 19:10 America/Chicago (24 h)", r.Subtitle)
	table := sectionOf(t, r, "gaps").Blocks[0].Table
	require.Equal(t, "Time (America/Chicago)", table.Columns[0].Name)
	require.Equal(t, "2025-09-30 21:15:07", table.Rows[0].Cells[0])
}

// The error of what fails is in its place, the rest of the report is there.
func TestFailures(t *testing.T) {
	source := open(t, t.TempDir()+"/missing")
	r, err := Make(t.Context(), source, Options{From: now.Add(-24 * time.Hour), To: now, Now: now,
		Sections: []string{"real", "methodology"}})
	require.NoError(t, err)
	require.Equal(t, 2, r.Failed)
	var b bytes.Buffer
	require.NoError(t, r.Text(&b, 80))
	require.Contains(t, b.String(), "Coverage is unknown: ")
	require.Contains(t, b.String(), "! snapshot directory ")
	require.Contains(t, b.String(), "A snapshot lists every slot")
	b.Reset()
	require.NoError(t, r.HTML(&b))
	require.Contains(t, b.String(), `<p class="error">Primary slots by category: snapshot directory `)
}

func TestNoData(t *testing.T) {
	r, err := Make(t.Context(), open(t, golden.Pool(t, "pool-a")),
		Options{From: now.AddDate(-1, 0, -1), To: now.AddDate(-1, 0, 0), Now: now})
	require.NoError(t, err)
	require.Zero(t, r.Failed)
	require.Contains(t, r.Notices, "Warning: no snapshot in the time range")
	for _, s := range r.Sections {
		for i, b := range s.Blocks {
			require.Nil(t, b.Table, "%s %d", s.Key, i)
			require.Nil(t, b.Chart, "%s %d", s.Key, i)
			require.True(t, b.Empty != "" || len(b.Paragraphs) > 0, "%s %d", s.Key, i)
		}
	}
}

func TestLast(t *testing.T) {
	chicago, err := time.LoadLocation("America/Chicago")
	require.NoError(t, err)
	at := time.Date(2025, 12, 1, 3, 0, 0, 0, time.UTC) // still November in Chicago
	for _, c := range []struct{ name, from, to string }{
		{"24h", "2025-11-30T03:00:00Z", "2025-12-01T03:00:00Z"},
		{"7d", "2025-11-24T03:00:00Z", "2025-12-01T03:00:00Z"},
		{"month", "2025-10-01T05:00:00Z", "2025-11-01T04:59:59.999999Z"},
	} {
		from, to, err := Last(c.name, at, chicago, 1)
		require.NoError(t, err)
		require.Equal(t, []string{c.from, c.to}, []string{from.UTC().Format(time.RFC3339Nano),
			to.UTC().Format(time.RFC3339Nano)}, c.name)
	}
	for _, name := range []string{"", "h", "0h", "-1d", "5w", "24hh", "24 h", "1e9h", "month2", "24h x"} {
		_, _, err := Last(name, at, chicago, 1)
		require.ErrorContains(t, err, "is not a time range", name)
	}
}

// Quarters and years of a fiscal year that begins in July: of the calendar, that are over.
func TestLastQuarterAndFiscalYear(t *testing.T) {
	day := func(year int, month time.Month) time.Time { return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		name      string
		now       time.Time
		yearStart int
		from, end time.Time
	}{
		{"quarter", day(2026, 1), 1, day(2025, 10), day(2026, 1)},
		{"quarter", day(2026, 3).AddDate(0, 0, 30), 1, day(2025, 10), day(2026, 1)},
		{"quarter", day(2025, 12), 2, day(2025, 8), day(2025, 11)},
		{"quarter", day(2025, 5).AddDate(0, 0, 30), 7, day(2025, 1), day(2025, 4)},
		{"fiscal-year", day(2025, 6).AddDate(0, 0, 29), 7, day(2023, 7), day(2024, 7)},
		{"fiscal-year", day(2025, 7), 7, day(2024, 7), day(2025, 7)},
		{"fiscal-year", day(2025, 10), 1, day(2024, 1), day(2025, 1)},
		{"month", day(2025, 3).AddDate(0, 0, 30), 7, day(2025, 2), day(2025, 3)},
	} {
		from, to, err := Last(c.name, c.now, time.UTC, c.yearStart)
		require.NoError(t, err)
		require.Equal(t, c.from, from, "%+v", c)
		require.Equal(t, c.end.Add(-time.Microsecond), to, "%+v", c)
	}
}

// hostile are names that a user, a machine or a project can give itself.
var hostile = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`</table></svg><style>*{display:none}</style>`,
	`{{.Title}} ${user} {{template "x"}}`,
	"line\nbreak\ttab\x00nul\x1b[31mred\x7f\u0085\u2028\u2029",
	"\u202Eright-to-left\u202C \u2066isolate\u2069 \u200Ezero\u200Bwidth\uFEFF",
	`=cmd|' /C calc'!A0`, `+1+1`, `-2+3`, `@SUM(A1)`,
	"J\xf6rg",
	strings.Repeat("long", 2500),
	strings.Repeat("寬", 300),
	"z\u0300\u0301\u0302\u0303\u0304algo",
	"javascript:alert(1)", "' onmouseover='alert(1)",
}

// hostilePool writes a day of a pool whose users, machines, devices and projects have such names.
func hostilePool(t *testing.T) string {
	dir := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(dir, "gpu_state_2025-10.db"))
	require.NoError(t, err)
	_, err = db.Exec(`CREATE TABLE gpu_state ("Name" TEXT, "AssignedGPUs" TEXT, "AvailableGPUs" TEXT, "State" TEXT, "GPUs_DeviceName" TEXT, "GPUs_GlobalMemoryMb" BIGINT,
		"PrioritizedProjects" TEXT, "GPUsAverageUsage" FLOAT, "Machine" TEXT, "PreventJobsReason" TEXT, "RemoteOwner" TEXT, "GlobalJobId" TEXT, timestamp DATETIME)`)
	require.NoError(t, err)
	tx, err := db.Begin()
	require.NoError(t, err)
	for quarter := range 40 {
		at := now.Add(time.Duration(quarter-40) * 15 * time.Minute).Format("2006-01-02 15:04:05.000000")
		for i, name := range hostile {
			state, owner, job := "Unclaimed", any(nil), any(nil)
			if (quarter/3+i)%2 == 0 {
				state, owner, job = "Claimed", name, fmt.Sprintf("%s#%d.0#1759300000", name, quarter/6)
			}
			if i == 3 {
				state, owner, job = "Drained", nil, nil
			}
			for _, slot := range []string{"slot1_1@m", "backfill2_1@m"} {
				_, err := tx.Exec("INSERT INTO gpu_state VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)", slot, "GPU-"+name, nil, state,
					name+" H200", 81920, name, nil, name, name, owner, job, at)
				require.NoError(t, err)
				if state == "Claimed" && i%3 > 0 {
					state, owner, job = "Owner", nil, nil
				}
			}
		}
	}
	require.NoError(t, tx.Commit())
	require.NoError(t, db.Close())
	return dir
}

func TestHostileNames(t *testing.T) {
	r, err := Make(t.Context(), open(t, hostilePool(t)),
		Options{From: now.Add(-10 * time.Hour), To: now, Now: now, Title: hostile[0]})
	require.NoError(t, err)
	require.Zero(t, r.Failed)

	for _, width := range []int{80, 100, 120} {
		var b bytes.Buffer
		require.NoError(t, r.Text(&b, width))
		checkHarmless(t, b.String(), true)
		require.Contains(t, b.String(), "<script>alert(1)</script>", "as text")
		require.Regexp(t, `\(1,0\d\d\s+characters\)`, b.String(), "cut to 1 KiB when read")
		for _, line := range strings.Split(b.String(), "\n") {
			require.LessOrEqual(t, screen.StringWidth(line), width, line)
		}
	}

	var b bytes.Buffer
	require.NoError(t, r.HTML(&b))
	page := checkPage(t, b.String())
	require.Contains(t, page.text, "<script>alert(1)</script>")
	require.Contains(t, page.text, `"><img src=x onerror=alert(1)>`)
	require.Contains(t, page.text, "{{.Title}} ${user}")
	checkHarmless(t, page.text, false)
}

// checkHarmless looks for what a terminal, a mail program or a spreadsheet would obey.
func checkHarmless(t *testing.T, text string, lines bool) {
	t.Helper()
	for i, r := range text {
		if r == '\n' {
			continue
		}
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			t.Fatalf("%U at %q", r, text[max(0, i-20):min(len(text), i+20)])
		}
	}
	for _, line := range strings.Split(text, "\n") {
		for _, formula := range []string{"=cmd", "+1+1", "-2+3", "@SUM"} {
			if at := strings.Index(line, formula); at == 0 || at > 0 && line[at-1] == ' ' {
				t.Errorf("%q begins a cell of %q", formula, line)
			}
		}
	}
}

// checked is what a page says.
type checked struct{ text string }

// checkPage parses a page: well-formed, nothing that runs or is fetched, headings in order, tables with captions and
// scopes, ids unique and what refers to them right.
func checkPage(t *testing.T, source string) checked {
	t.Helper()
	void := []string{"meta", "line", "path", "rect"}
	allowed := strings.Fields("html head meta title style body header h1 p bdi dl dt dd ul li nav a main section h2 h3 " +
		"div table caption thead tbody tr th td figure figcaption svg desc line text path rect span footer")
	var stack []string
	var text strings.Builder
	ids, refers := map[string]bool{}, []string{}
	level, scopes, headers := 0, 0, 0
	z := html.NewTokenizer(strings.NewReader(source))
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		token := z.Token()
		switch kind {
		case html.StartTagToken, html.SelfClosingTagToken:
			require.Contains(t, allowed, token.Data)
			for _, a := range token.Attr {
				require.False(t, strings.HasPrefix(a.Key, "on"), a)
				require.NotContains(t, []string{"src", "srcset", "style", "action", "formaction", "xlink:href", "background"},
					a.Key)
				switch a.Key {
				case "id":
					require.False(t, ids[a.Val], "id %s twice", a.Val)
					ids[a.Val] = true
				case "aria-labelledby":
					refers = append(refers, strings.Fields(a.Val)...)
				case "href":
					require.True(t, strings.HasPrefix(a.Val, "#"), a.Val)
					refers = append(refers, a.Val[1:])
				case "scope":
					scopes++
				}
			}
			if len(token.Data) == 2 && token.Data[0] == 'h' && token.Data[1] <= '6' && token.Data != "hr" {
				next := int(token.Data[1] - '0')
				require.LessOrEqual(t, next, level+1, "headings")
				level = next
			}
			if token.Data == "th" {
				headers++
			}
			if kind == html.StartTagToken && !slices.Contains(void, token.Data) {
				stack = append(stack, token.Data)
			}
			if token.Data == "thead" {
				require.Contains(t, text.String()[strings.LastIndex(text.String(), "\x01"):], "\x02", "a table has a caption")
			}
			if token.Data == "table" {
				text.WriteString("\x01")
			}
			if token.Data == "caption" {
				text.WriteString("\x02")
			}
		case html.EndTagToken:
			if !slices.Contains(void, token.Data) {
				require.NotEmpty(t, stack)
				require.Equal(t, stack[len(stack)-1], token.Data, "tags nest")
				stack = stack[:len(stack)-1]
			}
		case html.TextToken:
			if len(stack) > 0 && stack[len(stack)-1] == "style" {
				require.NotContains(t, token.Data, "url(")
				require.NotContains(t, token.Data, "@import")
			} else {
				text.WriteString(token.Data + "\n")
			}
		case html.CommentToken:
			t.Errorf("comment %q", token.Data)
		}
	}
	require.Empty(t, stack)
	require.Equal(t, headers, scopes, "every header cell has a scope")
	for _, id := range refers {
		require.True(t, ids[id], "id %s", id)
	}
	return checked{strings.NewReplacer("\x01", "", "\x02", "").Replace(text.String())}
}

func TestPageOfTheGoldenPool(t *testing.T) {
	r := poolA(t)
	var b bytes.Buffer
	require.NoError(t, r.HTML(&b))
	page := checkPage(t, b.String())
	require.Contains(t, page.text, "Prioritized (Researcher Owned)")
}
