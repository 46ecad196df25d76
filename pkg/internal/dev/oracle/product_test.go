package oracle

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/plugin"
)

const iso = "2006-01-02T15:04:05.000000Z"

func stamp(at int64) string { return time.UnixMicro(at).UTC().Format(iso) }

// jobFiles are the files of job ads by what a site collects.
var jobFiles = map[string][]string{
	"none": nil, "legacy": {"jobs_history_legacy.jsonl"}, "history": {"jobs_history_refactored.jsonl"},
	"epochs": {"jobs_epochs.jsonl"},
	"both":   {"jobs_history_refactored.jsonl", "jobs_epochs.jsonl"},
}

// product is the data source on a directory of month files.
type product struct {
	source *plugin.Datasource
	jobs   string
	ads    []ad
	asked  int // questions
}

// open opens the data source on a pool's directory with job ads of some kind; its clock is fixed at the
// newest snapshot.
func open(t testing.TB, r *records, dir, zone, jobs string, files ...string) *product {
	return openSliced(t, r, dir, zone, 15, jobs, files...)
}

// openSliced is open with slices of so many minutes.
func openSliced(t testing.TB, r *records, dir, zone string, minutes int, jobs string, files ...string) *product {
	p := &product{jobs: jobs}
	settings := map[string]any{"snapshotDir": dir, "timezone": zone, "jobs": "none", "sliceMinutes": minutes}
	if jobs != "none" {
		for _, f := range files {
			p.ads = append(p.ads, readAds(t, filepath.Join(dir, f))...)
		}
		settings["jobs"], settings["jobsPath"] = "sqlite", "jobs_"+jobs+".db"
		writeJobFile(t, filepath.Join(dir, "jobs_"+jobs+".db"), dir, files)
	}
	text, err := json.Marshal(settings)
	require.NoError(t, err)
	now := time.UnixMicro(r.snapshots[len(r.snapshots)-1].at).UTC()
	p.source = plugin.Open(backend.DataSourceInstanceSettings{Type: plugin.ID, JSONData: text},
		func() time.Time { return now })
	t.Cleanup(p.source.Dispose)
	return p
}

func writeJobFile(t testing.TB, path, dir string, files []string) {
	if _, err := os.Stat(path); err == nil {
		return // another data source's
	}
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	tx, err := db.Begin()
	require.NoError(t, err)
	_, err = tx.Exec("CREATE TABLE ads(kind TEXT, GlobalJobId TEXT, RecordTime INTEGER, ad TEXT)")
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			a := parseAd(t, []byte(line))
			kind := "history"
			if a.epoch() {
				kind = "epoch"
			}
			at, _ := a.number("RecordTime")
			_, err = tx.Exec("INSERT INTO ads VALUES (?, ?, ?, ?)", kind, a.text("GlobalJobId"), int64(at),
				strings.TrimSpace(line))
			require.NoError(t, err)
		}
	}
	_, err = tx.Exec("CREATE INDEX ads_job ON ads(GlobalJobId)")
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
}

// question is a query of the product and what to do with its answer.
type question struct {
	json  string
	check func(data.Frames)
}

func (p *product) ask(t testing.TB, from, to int64, questions []question) {
	window := backend.TimeRange{From: time.UnixMicro(from).UTC(), To: time.UnixMicro(to).UTC()}
	request := &backend.QueryDataRequest{}
	for i, q := range questions {
		var kind struct{ QueryType string }
		require.NoError(t, json.Unmarshal([]byte(q.json), &kind), q.json)
		request.Queries = append(request.Queries, backend.DataQuery{RefID: fmt.Sprint(i), QueryType: kind.QueryType,
			TimeRange: window, Interval: time.Minute, JSON: []byte(q.json)})
	}
	response, err := p.source.QueryData(context.Background(), request)
	require.NoError(t, err)
	p.asked += len(questions)
	for i, q := range questions {
		r := response.Responses[fmt.Sprint(i)]
		require.NoError(t, r.Error, q.json)
		q.check(r.Frames)
	}
}

// compare reports how the product's answers of a window differ from the oracle's.
func compare(t testing.TB, p *product, r *records, from, to int64) (differences []string) {
	return compareIn(t, p, newView(r, p.ads, p.jobs != "none", from, to))
}

// compareIn is compare in the manner of a view.
func compareIn(t testing.TB, p *product, v *view) (differences []string) {
	differ := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	lines := func(what string, want, got []string) {
		slices.Sort(want)
		slices.Sort(got)
		for _, l := range without(want, got) {
			differ("%s: missing    %s", what, l)
		}
		for _, l := range without(got, want) {
			differ("%s: unexpected %s", what, l)
		}
	}
	text := func(x any) string { s, _ := x.(string); return s }
	word := func(x any) string {
		if s := text(x); s != "" {
			return s
		}
		return "none"
	}
	var questions []question
	for _, tenure := range []bool{false, true} {
		query := `{"queryType": "backfillAvailability", "view": "periods", "limit": 50000}`
		name := "vacancies"
		if tenure {
			query, name = `{"queryType": "backfillAvailability", "view": "periods", "duration": "tenure", "limit": 50000}`,
				"tenures"
		}
		questions = append(questions, question{query, func(frames data.Frames) {
			rows := golden.Rows(frames)
			var want, got []string
			for _, p := range v.periods(tenure) {
				want = append(want, strings.Join([]string{p.machine, p.id, p.gpu.device, p.gpu.category(), stamp(p.start),
					stamp(p.end), p.reason,
					fmt.Sprintf("censored=%t truncated=%t unknown=%t", p.censored, p.leftTruncated, p.unknownFrom), p.job,
					word(p.link)}, "|"))
			}
			for _, x := range rows {
				got = append(got, strings.Join([]string{text(x["machine"]), text(x["gpu"]), text(x["device"]), text(x["category"]),
					at(x["start"]), at(x["end"]), text(x["endReason"]),
					fmt.Sprintf("censored=%v truncated=%v unknown=%v", x["censored"], x["leftTruncated"], x["unknownStart"]),
					text(x["job"]), word(x["link"])}, "|"))
				if h := at(x["end"]); h != "" {
					if want := x["end"].(time.Time).Sub(x["start"].(time.Time)).Hours(); !golden.Same(want, x["hours"]) {
						differ("%s: hours of %v", name, x)
					}
				}
			}
			lines(name, want, got)
		}})
	}
	questions = append(questions, question{`{"queryType": "evictions", "view": "runs", "limit": 50000}`,
		func(frames data.Frames) {
			rows := golden.Rows(frames)
			var want, got []string
			for _, s := range v.runs(v.from, v.to) {
				want = append(want, strings.Join([]string{s.machine, strings.Join(s.ids(), ","), s.gpu.device, s.gpu.category(),
					s.owner, s.job, stamp(s.started), stamp(s.end),
					s.outcome, word(s.evidence), word(s.cause), s.link}, "|"))
			}
			for _, x := range rows {
				got = append(got, strings.Join([]string{text(x["machine"]), sortedIDs(x["gpuIds"]), text(x["device"]),
					text(x["category"]), text(x["user"]), text(x["job"]), at(x["start"]), at(x["end"]),
					text(x["outcome"]), word(x["evidence"]), word(x["cause"]), word(x["link"])}, "|"))
			}
			lines("runs", want, got)
		}}, question{`{"queryType": "evictions", "view": "events", "limit": 50000}`,
		func(frames data.Frames) {
			rows := golden.Rows(frames)
			var want, got []string
			for _, s := range v.runs(v.from, v.to) {
				if s.outcome == "evicted" {
					want = append(want, strings.Join([]string{stamp(s.end), s.machine, strings.Join(s.ids(), ","), s.gpu.category(),
						s.owner, s.job,
						fmt.Sprintf("%.6f %.6f", s.hours(), s.hours()*float64(len(s.gpus))), s.cause, s.evidence, s.takenOverBy}, "|"))
				}
			}
			for _, x := range rows {
				got = append(got, strings.Join([]string{at(x["time"]), text(x["machine"]), sortedIDs(x["gpuIds"]), text(x["category"]),
					text(x["user"]), text(x["job"]),
					fmt.Sprintf("%.6f %.6f", x["ranHours"], x["gpuHours"]), text(x["cause"]), text(x["evidence"]),
					text(x["takenOverBy"])}, "|"))
			}
			lines("events", want, got)
		}})
	for _, by := range []string{"", "device", "category", "ownership", "machineType", "machine"} {
		groupBy := "[]"
		if by != "" {
			groupBy = `["` + by + `"]`
		}
		equal := func(what string, names []string, want map[string]figures, rows []map[string]any) {
			got := map[string]map[string]any{}
			for _, x := range rows {
				var k []string
				for _, n := range names {
					k = append(k, text(x[n]))
				}
				got[strings.Join(k, "|")] = x
			}
			for g, f := range want {
				if got[g] == nil {
					if !idle(f) {
						differ("%s: no group %q", what, g)
					}
					continue
				}
				for m, w := range f {
					if x, ok := got[g][m]; ok && !golden.Same(w, x) {
						differ("%s %s %s: %v, the product says %v", what, g, m, w, x)
					}
				}
			}
			for g, f := range got {
				if want[g] == nil && !idle(f) {
					differ("%s: unexpected group %q: %v", what, g, f)
				}
			}
		}
		questions = append(questions, question{`{"queryType": "backfillAvailability", "view": "summary", "totals": false, "metrics": [], "groupBy": ` + groupBy + `}`,
			func(frames data.Frames) {
				rows := golden.Rows(frames)
				equal("availability by "+by, keysOf(by), v.availability(groupings[by]), rows)
			}}, question{`{"queryType": "evictions", "view": "summary", "totals": false, "metrics": [], "groupBy": ` + groupBy + `}`,
			func(frames data.Frames) {
				rows := golden.Rows(frames)
				all, _, _ := v.evictions(groupings[by])
				equal("evictions by "+by, keysOf(by), all, rows)
			}})
		if by == "" || by == "device" {
			for _, part := range []string{"cause", "evidence"} {
				names := append(keysOf(by), part)
				list, _ := json.Marshal(names)
				questions = append(questions, question{`{"queryType": "evictions", "view": "summary", "totals": false, "metrics": ["evictions", "ratePer100GpuHours", "lostGpuHours", "medianHoursToEviction"], "groupBy": ` + string(list) + `}`,
					func(frames data.Frames) {
						rows := golden.Rows(frames)
						_, causes, evidences := v.evictions(groupings[by])
						want := map[string]map[string]figures{"cause": causes, "evidence": evidences}[part]
						named := map[string]figures{}
						for k, f := range want {
							if by == "" {
								k = strings.TrimPrefix(k, "|")
							}
							named[k] = f
						}
						equal("evictions by "+strings.Join(names, ", "), names, named, rows)
					}})
			}
		}
		questions = append(questions, question{`{"queryType": "backfillAvailability", "view": "transitions", "totals": false, "groupBy": ` + groupBy + `, "limit": 50000}`,
			func(frames data.Frames) {
				rows := golden.Rows(frames)
				var want, got []string
				for k, n := range v.transitions(groupings[by]) {
					want = append(want, fmt.Sprintf("%s|%s|%s|%v", k[0], k[1], k[2], n))
				}
				for _, x := range rows {
					if x["count"] != 0.0 {
						got = append(got, fmt.Sprintf("%s|%s|%s|%v", text(x[by]), text(x["from"]), text(x["to"]), x["count"]))
					}
				}
				lines("transitions by "+by, want, got)
			}})
	}
	questions = append(questions, v.questionsOfTime(differ)...)
	for i := range questions {
		if v.filter != "" {
			questions[i].json = `{"filter": ` + v.filter + ", " + questions[i].json[1:]
		}
	}
	p.ask(t, v.from, v.to, questions)
	return differences
}

func keysOf(by string) []string {
	if by == "" {
		return nil
	}
	return []string{by}
}

// idle reports whether a group has nothing to say.
func idle(f map[string]any) bool {
	for _, x := range f {
		if n, ok := x.(float64); ok && n != 0 {
			return false
		}
	}
	return true
}

// without returns the lines of a that are not in b, both sorted.
func without(a, b []string) (only []string) {
	for i, j := 0, 0; i < len(a); {
		switch {
		case j == len(b) || a[i] < b[j]:
			only = append(only, a[i])
			i++
		case a[i] == b[j]:
			i++
			j++
		default:
			j++
		}
	}
	return only
}
