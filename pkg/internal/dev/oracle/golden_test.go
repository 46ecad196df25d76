package oracle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
)

const iso = "2006-01-02T15:04:05.000000Z"

func stamp(at int64) string { return time.UnixMicro(at).UTC().Format(iso) }

func micros(t testing.TB, text string) int64 {
	at, err := time.Parse(time.RFC3339Nano, text)
	require.NoError(t, err)
	return at.UnixMicro()
}

// jobFiles are the files of job ads by what a site collects.
var jobFiles = map[string][]string{
	"none": nil, "legacy": {"jobs_history_legacy.jsonl"}, "history": {"jobs_history_refactored.jsonl"},
	"epochs": {"jobs_epochs.jsonl"},
	"both":   {"jobs_history_refactored.jsonl", "jobs_epochs.jsonl"},
}

func adsOf(t testing.TB, dir, jobs string) []ad {
	var files []string
	for _, f := range jobFiles[jobs] {
		files = append(files, filepath.Join(dir, f))
	}
	return readAds(t, files...)
}

var categoryKeys = map[string]string{"Backfill (CHTC Owned)": "Backfill-CHTCOwned",
	"Backfill (Researcher Owned)": "Backfill-ResearcherOwned", "Backfill (Open Capacity)": "Backfill-OpenCapacity"}

func (p period) line() string {
	return strings.Join([]string{p.machine, p.id, stamp(p.start), stamp(p.end), p.reason, categoryKeys[p.gpu.category()],
		p.gpu.device}, "|")
}

func (s seen) line() string {
	return strings.Join([]string{s.machine, strings.Join(s.ids(), ","), s.job, stamp(s.started), stamp(s.end), s.outcome,
		s.evidence}, "|")
}

func sum(lines []string) string {
	h := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(h[:])
}

type goldenJobs struct {
	Availability struct {
		Periods     json.RawMessage
		Summary     map[string]json.RawMessage
		Transitions map[string]json.RawMessage
		Tenure      struct{ Summary map[string]json.RawMessage }
	} `json:"backfillAvailability"`
	Evictions map[string]json.RawMessage
}

var splits = map[string]string{"all": "", "byDevice": "device", "byCategory": "category", "byOwnership": "ownership",
	"byMachineType": "machineType", "byMachine": "machine"}

// byGroup reads an expected object of a split: group → figures.
func byGroup(t testing.TB, name string, raw json.RawMessage) map[string]map[string]any {
	groups := map[string]map[string]any{}
	if name == "all" {
		var one map[string]any
		require.NoError(t, json.Unmarshal(raw, &one))
		groups[""] = one
		return groups
	}
	require.NoError(t, json.Unmarshal(raw, &groups))
	if name == "byCategory" {
		for display, k := range categoryKeys {
			if g, ok := groups[k]; ok {
				delete(groups, k)
				groups[display] = g
			}
		}
	}
	return groups
}

// The oracle's reading of the methodology is that of the golden answers.
func TestGolden(t *testing.T) {
	for _, pool := range []string{"pool-a", "pool-b"} {
		dir := golden.Pool(t, pool)
		var want struct {
			Timezone string
			Windows  map[string]struct {
				Common struct {
					Window  struct{ Start, End string }
					Cadence map[string]float64 `json:"cadenceSeconds"`
				}
				Jobs map[string]goldenJobs
			}
		}
		golden.Expected(t, pool, &want)
		records := readRecords(t, dir, want.Timezone)
		for window, w := range want.Windows {
			from, to := micros(t, w.Common.Window.Start), micros(t, w.Common.Window.End)
			for date, c := range w.Common.Cadence {
				require.InDelta(t, c, float64(records.cadence(micros(t, date+"T00:00:00Z")/day))/1e6, 1e-5, "cadence of %s", date)
			}
			for jobs, expected := range w.Jobs {
				sources := []string{jobs}
				if jobs == "history" {
					sources = []string{"history", "legacy"}
				}
				for _, source := range sources {
					t.Run(fmt.Sprintf("%s/%s/%s", pool, window, source), func(t *testing.T) {
						v := newView(records, adsOf(t, dir, source), source != "none", from, to)
						v.equalGolden(t, expected)
					})
				}
			}
		}
	}
}

func (v *view) equalGolden(t *testing.T, want goldenJobs) {
	var periods, runs []string
	for _, p := range v.periods(false) {
		periods = append(periods, p.line())
	}
	for _, r := range v.runs(v.from, v.to) {
		runs = append(runs, r.line())
	}
	same := func(what string, raw json.RawMessage, got []string, line func(map[string]any) string) {
		slices.Sort(got)
		var digest struct {
			Count  int
			First  []string
			Sha256 string
		}
		var list []map[string]any
		if json.Unmarshal(raw, &list) == nil {
			var lines []string
			for _, x := range list {
				lines = append(lines, line(x))
			}
			slices.Sort(lines)
			if len(lines) != len(got) || sum(lines) != sum(got) {
				for _, l := range lines {
					if !slices.Contains(got, l) {
						t.Errorf("%s: missing %s", what, l)
					}
				}
				for _, l := range got {
					if !slices.Contains(lines, l) {
						t.Errorf("%s: unexpected %s", what, l)
					}
				}
			}
			return
		}
		require.NoError(t, json.Unmarshal(raw, &digest))
		if digest.Count != len(got) || digest.Sha256 != sum(got) {
			t.Errorf("%s: %d lines expected, %d there; first %s, got %s", what, digest.Count, len(got),
				strings.Join(digest.First, "\n"), strings.Join(got[:min(10, len(got))], "\n"))
		}
	}
	same("periods", want.Availability.Periods, periods, func(x map[string]any) string {
		return fmt.Sprintf("%v|%v|%v|%v|%v|%v|%v", x["machine"], x["gpu"], x["start"], x["end"], x["endReason"],
			x["category"], x["device"])
	})
	same("runs", want.Evictions["runs"], runs, func(x map[string]any) string {
		var ids []string
		for _, id := range x["gpuIds"].([]any) {
			ids = append(ids, id.(string))
		}
		slices.Sort(ids)
		job, _ := x["job"].(string)
		return fmt.Sprintf("%v|%v|%v|%v|%v|%v|%v", x["machine"], strings.Join(ids, ","), job, x["start"], x["end"],
			x["outcome"], x["evidence"])
	})
	for name, split := range splits {
		group := groupings[split]
		if raw, ok := want.Availability.Summary[name]; ok {
			got := v.availability(group)
			for g, figures := range byGroup(t, name, raw) {
				equalFigures(t, "availability "+name+" "+g, figures, got[g])
			}
			if raw, ok = want.Availability.Tenure.Summary[name]; ok {
				for g, figures := range byGroup(t, name, raw) {
					for _, h := range []string{"hours90", "hours75", "hours50"} {
						equalFigures(t, "tenure "+name+" "+g, map[string]any{h: figures[h]}, got[g])
					}
				}
			}
		}
		if raw, ok := want.Evictions[name]; ok {
			got, byCause, byEvidence := v.evictions(group)
			for g, figures := range byGroup(t, name, raw) {
				equalFigures(t, "evictions "+name+" "+g, figures, got[g])
				for part, have := range map[string]map[string]map[string]any{"byCause": plain(byCause),
					"byEvidence": plain(byEvidence)} {
					for k, f := range figures[part].(map[string]any) {
						equalFigures(t, "evictions "+name+" "+g+" "+k, f.(map[string]any), have[g+"|"+k])
					}
				}
			}
		}
		if raw, ok := want.Availability.Transitions[name]; ok {
			got := v.transitions(group)
			n := 0
			for g, counts := range byGroup(t, name, raw) {
				for arrow, count := range counts {
					a, b, _ := strings.Cut(arrow, "→")
					n++
					require.Equal(t, count, got[[3]string{g, a, b}], "transitions %s %s", g, arrow)
				}
			}
			require.Len(t, got, n, "transitions %s", name)
		}
	}
}

func plain(groups map[string]figures) map[string]map[string]any {
	out := map[string]map[string]any{}
	for g, f := range groups {
		out[g] = f
	}
	return out
}

// equalFigures compares the metrics that both have: figures that the oracle does not have are not its business.
func equalFigures(t *testing.T, what string, want map[string]any, got figures) {
	t.Helper()
	for name, w := range want {
		if g, ok := got[name]; ok && !golden.Same(w, g) {
			t.Errorf("%s %s: %v expected, got %v", what, name, w, g)
		} else if got == nil {
			t.Errorf("%s: no group", what)
			return
		}
	}
}
