package backfill_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

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

const summary = `{"queryType": "backfillAvailability", "totals": false}`

// A job source that does not answer leaves the answer of the snapshots, with a warning that says why; a source that is
// not there too, without a warning.
func TestSourceFaults(t *testing.T) {
	s := open(t, golden.Pool(t, "pool-b"), "America/Chicago")
	w := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	alone := s.Ask(t, nil, w, summary)
	require.Contains(t, notices(alone, data.NoticeSeverityInfo), "no job source is set up")

	down := &jobstest.Memory{Err: pool.SourceError("Elasticsearch at http://es:9200 does not answer: start it")}
	frames := s.Ask(t, down, w, summary)
	require.Equal(t, golden.Rows(alone), golden.Rows(frames))
	require.Contains(t, notices(frames, data.NoticeSeverityWarning), "http://es:9200 does not answer: start it")

	partial := runstest.Ads(t, "pool-b", "jobs_epochs.jsonl").(*jobstest.Memory)
	partial.Notices = []string{"2 of 5 shards failed"}
	require.Contains(t, notices(s.Ask(t, partial, w, summary), data.NoticeSeverityWarning), "2 of 5 shards failed")

	few := jobstest.NewMemory([]byte(strings.SplitN(string(golden.Read(t, "pool-b", "jobs_epochs.jsonl")), "\n", 2)[0]))
	require.Contains(t, notices(s.Ask(t, few, w, summary), data.NoticeSeverityWarning),
		"runs that bound periods and ended more than 30 min ago are linked")

	ask := func(ctx context.Context, source jobs.Source) error {
		m, err := query.Parse([]byte(summary))
		require.NoError(t, err)
		_, err = s.Answer(ctx, source, query.Request{Model: m, Window: w, Now: w.To})
		return err
	}
	bug := errors.New("a bug")
	require.ErrorIs(t, ask(context.Background(), &jobstest.Memory{Err: bug}), bug, "a bug is not hidden behind a notice")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, ask(ctx, nil), context.Canceled)

	// what needs no job times asks for none
	asked := jobstest.NewMemory()
	for _, view := range []string{"transitions", "hourOfWeek"} {
		s.Ask(t, asked, w, fmt.Sprintf(`{"queryType": "backfillAvailability", "view": %q}`, view))
		require.Empty(t, asked.Asked())
	}
}

// A period that began more than 7 days before the window is listed and counted, and in no statistics and no curve.
func TestLeftTruncated(t *testing.T) {
	var rows []snapshotstest.Row
	begin := time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	for i := range 9 * 96 { // used, then available for more than 8 days, then taken
		r := snapshotstest.Row{"Machine": "m1", "AssignedGPUs": "a",
			"timestamp": begin.Add(time.Duration(i) * 15 * time.Minute).Format("2006-01-02 15:04:05.000000"),
			"Name":      "backfill2@m1", "State": "Unclaimed"}
		if i == 0 {
			r["State"], r["GlobalJobId"] = "Claimed", "ap#1.0#1"
		}
		if i > 9*96-5 {
			r["Name"], r["State"], r["GlobalJobId"] = "slot1_1@m1", "Claimed", "ap#2.0#1"
		}
		rows = append(rows, r)
	}
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-06.db": rows})
	s := open(t, dir, "UTC")
	const columns = "%v %v %v left=%v unknown=%v"
	list := func(from, to time.Time) (lines []string, counts string) {
		w := pool.Window{From: from.UnixMicro(), To: to.UnixMicro()}
		for _, r := range golden.Rows(s.Ask(t, nil, w, `{"queryType": "backfillAvailability", "view": "periods"}`)) {
			lines = append(lines, fmt.Sprintf(columns, r["start"].(time.Time).Sub(begin), r["end"].(time.Time).Sub(begin),
				r["endReason"], r["leftTruncated"], r["unknownStart"]))
		}
		r := golden.Rows(s.Ask(t, nil, w, summary))[0]
		return lines, fmt.Sprintf("count %v censored %v unknown %v km %v", r["count"], r["censored"], r["unknownStart"],
			r["kmMedianHours"])
	}
	end := begin.Add(9 * 24 * time.Hour)
	lines, counts := list(end.Add(-24*time.Hour), end)
	require.Equal(t, []string{"24h0m0s 215h0m0s reclaimed left=true unknown=false"}, lines,
		"first seen 7 days before the window")
	require.Equal(t, "count 0 censored 0 unknown 0 km <nil>", counts)
	require.Contains(t, notices(s.Ask(t, nil, pool.Window{From: end.Add(-24 * time.Hour).UnixMicro(),
		To: end.UnixMicro()}, summary), data.NoticeSeverityInfo), "more than 7 days before the time range")

	lines, counts = list(begin.Add(7*24*time.Hour), end)
	require.Equal(t, []string{"15m0s 215h0m0s reclaimed left=false unknown=false"}, lines)
	require.Equal(t, "count 1 censored 0 unknown 0 km 214.75", counts)
}

func TestFilters(t *testing.T) {
	s := open(t, golden.Pool(t, "pool-b"), "America/Chicago")
	w := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	all := golden.Rows(s.Ask(t, nil, w, `{"queryType": "backfillAvailability", "view": "periods", "limit": 50000}`))
	for filter, passes := range map[string]func(map[string]any) bool{
		`{"categories": ["Backfill-CHTCOwned"]}`: func(r map[string]any) bool { return r["category"] == "Backfill (CHTC Owned)" },
		`{"machines": ["/^isye/"]}`:              func(r map[string]any) bool { return strings.HasPrefix(r["machine"].(string), "isye") },
		`{"devices": ["/A100/"]}`: func(r map[string]any) bool {
			return strings.Contains(r["device"].(string),
				"A100")
		},
		`{"slots": ["Real"]}`: func(map[string]any) bool { return false },
	} {
		var want []map[string]any
		for _, r := range all {
			if passes(r) {
				want = append(want, r)
			}
		}
		require.NotEqual(t, len(all), len(want))
		frames := s.Ask(t, nil, w, `{"queryType": "backfillAvailability", "view": "periods", "limit": 50000, "filter": `+filter+`}`)
		require.Equal(t, want, golden.Rows(frames), filter)
	}
	frames := s.Ask(t, nil, w, `{"queryType": "backfillAvailability", "filter": {"machines": ["nowhere"]}}`)
	require.Empty(t, frames[0].Fields)
	require.Contains(t, notices(frames, data.NoticeSeverityWarning), "nowhere")
}
