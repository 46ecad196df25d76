package evictions_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

const zoneB = "America/Chicago"

func windowB(t *testing.T) pool.Window {
	return golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
}

// notices are the sentences of an answer with a severity. Those of statistics count as information.
func notices(frames data.Frames, severity data.NoticeSeverity) string {
	var texts []string
	for _, s := range frames[0].Meta.Stats {
		if severity == data.NoticeSeverityInfo {
			texts = append(texts, s.Description)
		}
	}
	for _, n := range frames[0].Meta.Notices {
		if n.Severity == severity {
			texts = append(texts, n.Text)
		}
	}
	return strings.Join(texts, "\n")
}

const summary = `{"queryType": "evictions", "totals": false}`

// A job source that does not answer leaves the answer of the snapshots, with a warning that says why; a source that is
// not there too, without a warning.
func TestSourceFaults(t *testing.T) {
	s := open(t, golden.Pool(t, "pool-b"), zoneB)
	alone := s.Ask(t, nil, windowB(t), summary)
	require.Contains(t, notices(alone, data.NoticeSeverityInfo), "no job source is set up")
	row := golden.Rows(alone)[0]
	require.Nil(t, row["evictedPercent"])
	require.Nil(t, row["medianHoursToEviction"])
	require.Equal(t, 109.0, row["evictions"])
	require.Empty(t, golden.Rows(s.Ask(t, nil, windowB(t), `{"queryType": "evictions", "view": "survival"}`)))

	down := &jobstest.Memory{Err: pool.SourceError("Elasticsearch at http://es:9200 does not answer: start it")}
	frames := s.Ask(t, down, windowB(t), summary)
	require.Equal(t, golden.Rows(alone), golden.Rows(frames))
	require.Contains(t, notices(frames, data.NoticeSeverityWarning), "http://es:9200 does not answer: start it")
	require.Contains(t, notices(frames, data.NoticeSeverityWarning), "wrong in both directions")

	partial := runstest.Ads(t, "pool-b", "jobs_epochs.jsonl").(*jobstest.Memory)
	partial.Notices = []string{"2 of 5 shards failed"}
	require.Contains(t, notices(s.Ask(t, partial, windowB(t), summary), data.NoticeSeverityWarning),
		"2 of 5 shards failed")

	ask := func(ctx context.Context, source jobs.Source) error {
		m, err := query.Parse([]byte(summary))
		require.NoError(t, err)
		_, err = s.Answer(ctx, source, query.Request{Model: m, Window: windowB(t), Now: windowB(t).To})
		return err
	}
	bug := errors.New("a bug")
	require.ErrorIs(t, ask(context.Background(), &jobstest.Memory{Err: bug}), bug, "a bug is not hidden behind a notice")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, ask(ctx, nil), context.Canceled)
	ctx, cancel = context.WithCancel(context.Background())
	require.ErrorIs(t, ask(ctx, canceling{cancel}), context.Canceled,
		"a lookup that was called off is no failure of the source")
}

// canceling is a source during whose lookup the caller goes away.
type canceling struct{ cancel func() }

func (c canceling) Ads(ctx context.Context, _ []jobs.Wanted) (jobs.Result, error) {
	c.cancel()
	return jobs.Result{}, pool.SourceError("the request was broken off: %w", ctx.Err())
}
func (canceling) AdsOnMachines(context.Context, []jobs.MachineDay) (jobs.Result, error) {
	return jobs.Result{}, nil
}
func (canceling) Epochs(context.Context, []jobs.EpochDay) (jobs.Result, error) {
	return jobs.Result{}, nil
}
func (canceling) Newest(context.Context) (time.Time, error)   { return time.Time{}, nil }
func (canceling) Health(context.Context) (jobs.Health, error) { return jobs.Health{}, nil }
func (canceling) Close() error                                { return nil }

// With ads of less than half of the runs completions cannot be seen.
func TestLinkRate(t *testing.T) {
	s := open(t, golden.Pool(t, "pool-b"), zoneB)
	lines := strings.Split(strings.TrimSpace(string(golden.Read(t, "pool-b", "jobs_epochs.jsonl"))), "\n")
	few := jobstest.NewMemory()
	for _, l := range lines[:len(lines)/4] {
		few.Add([]byte(l))
	}
	frames := s.Ask(t, few, windowB(t), summary)
	require.Contains(t, notices(frames, data.NoticeSeverityWarning), "runs that ended more than 30 min ago are linked")
	row := golden.Rows(frames)[0]
	require.Nil(t, row["evictedPercent"])
	require.Nil(t, row["medianHoursToEviction"])
	require.NotNil(t, row["ratePer100GpuHours"])
	require.Positive(t, row["completed"], "what the ads say still counts")
	require.Empty(t, golden.Rows(s.Ask(t, few, windowB(t), `{"queryType": "evictions", "view": "survival"}`)))

	// fewer than 20 runs: no obstacle, the notice gives the counts
	short := golden.Window(t, "2025-11-01T12:00:00Z", "2025-11-01T15:00:00Z")
	frames = s.Ask(t, few, short, summary)
	require.Contains(t, notices(frames, data.NoticeSeverityInfo), "runs that ended more than 30 min ago are linked")
	require.NotNil(t, golden.Rows(frames)[0]["evictedPercent"])
}

// Zooming never changes an outcome: a run that ends in two windows has the same outcome in both, in any query.
func TestZoom(t *testing.T) {
	s := open(t, golden.Pool(t, "pool-b"), zoneB)
	whole := windowB(t)
	for variant, list := range runstest.Sources(t, "pool-b") {
		source := list[0]
		lines := func(w pool.Window) (ended []string, all int) {
			rows := golden.Rows(s.Ask(t, source, w, `{"queryType": "evictions", "view": "runs", "limit": 50000}`))
			for _, r := range rows {
				if r["outcome"] != "running" {
					ended = append(ended, fmt.Sprint(r["end"].(time.Time).UnixMicro(), " ", r))
				}
			}
			slices.Sort(ended)
			return ended, len(rows)
		}
		everything, _ := lines(whole)
		const parts = 9
		var found []string
		step := (whole.To - whole.From) / parts
		for i := range int64(parts) {
			w := pool.Window{From: whole.From + i*step, To: whole.From + (i+1)*step - 1}
			if i == parts-1 {
				w.To = whole.To
			}
			ended, all := lines(w)
			require.NotZero(t, all)
			found = append(found, ended...)
		}
		slices.Sort(found)
		require.Equal(t, everything, found, variant)
	}
}

// Asked in one call: each job once, and only jobs of runs that can overlap the window or show the clocks on its
// days.
func TestAsksOnce(t *testing.T) {
	s := open(t, golden.Pool(t, "pool-b"), zoneB)
	source := runstest.Ads(t, "pool-b", "jobs_epochs.jsonl").(*jobstest.Memory)
	s.Ask(t, source, golden.Window(t, "2025-11-01T12:00:00Z", "2025-11-01T15:00:00Z"), summary)
	jobsOf := func(asked []string) []string {
		// the others are machines
		return slices.DeleteFunc(asked, func(name string) bool { return !strings.Contains(name, "#") })
	}
	few := jobsOf(source.Asked())
	require.NotEmpty(t, few)
	s.Ask(t, source, windowB(t), summary)
	all := jobsOf(source.Asked())
	require.GreaterOrEqual(t, len(all), len(few))
	slices.Sort(all)
	require.Len(t, slices.Compact(slices.Clone(all)), len(all))
}

// A limit leaves the first rows.
func TestLimits(t *testing.T) {
	s := open(t, golden.Pool(t, "pool-b"), zoneB)
	source := runstest.Sources(t, "pool-b")["both"][0]
	for _, view := range []string{"jobs", "runs", "events"} {
		ask := func(limit string) []map[string]any {
			return golden.Rows(s.Ask(t, source, windowB(t), `{"queryType": "evictions", "view": "`+view+`", "limit": `+limit+`}`))
		}
		all := ask("50000")
		require.Greater(t, len(all), 3)
		require.Equal(t, all[:3], ask("3"), view)
	}
}

func TestFilters(t *testing.T) {
	s := open(t, golden.Pool(t, "pool-b"), zoneB)
	source := runstest.Sources(t, "pool-b")["both"][0]
	all := golden.Rows(s.Ask(t, source, windowB(t), `{"queryType": "evictions", "view": "runs", "limit": 50000}`))
	for filter, passes := range map[string]func(map[string]any) bool{
		`{"categories": ["Backfill-CHTCOwned"]}`:                 func(r map[string]any) bool { return r["category"] == "Backfill (CHTC Owned)" },
		`{"ownerships": ["Open Capacity"]}`:                      func(r map[string]any) bool { return r["category"] == "Backfill (Open Capacity)" },
		`{"machines": ["/^isye/"]}`:                              func(r map[string]any) bool { return strings.HasPrefix(r["machine"].(string), "isye") },
		`{"users": ["user027@chtc.example.org"]}`:                func(r map[string]any) bool { return r["user"] == "user027@chtc.example.org" },
		`{"devices": ["/A100/"], "slots": ["Backfill", "Real"]}`: func(r map[string]any) bool { return strings.Contains(r["device"].(string), "A100") },
		`{"slots": ["Real"]}`:                                    func(map[string]any) bool { return false },
	} {
		var want []map[string]any
		for _, r := range all {
			if passes(r) {
				want = append(want, r)
			}
		}
		require.NotEqual(t, len(all), len(want))
		frames := s.Ask(t, source, windowB(t), `{"queryType": "evictions", "view": "runs", "limit": 50000, "filter": `+filter+`}`)
		require.Equal(t, want, golden.Rows(frames), filter)
		if want == nil {
			require.Empty(t, frames[0].Fields)
		}
	}
	frames := s.Ask(t, source, windowB(t), `{"queryType": "evictions", "filter": {"machines": ["nowhere"]}}`)
	require.Empty(t, frames[0].Fields)
	require.Contains(t, notices(frames, data.NoticeSeverityWarning), "nowhere")
}
