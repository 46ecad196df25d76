package backfill_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
)

// A run counts if its claim ended a period that does not end before the window, or began one whose beginning is seen.
func TestLinksByDefinition(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-b"), "America/Chicago")
	ads := runstest.Ads(t, "pool-b", "jobs_epochs.jsonl")
	all := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	random := rand.New(rand.NewPCG(1, 9))
	counts := map[linked.Share]bool{}
	for range 30 {
		length := pool.Hour + random.Int64N(all.To-all.From-pool.Hour)
		from := all.From + random.Int64N(all.To-all.From-length)
		w := pool.Window{From: from, To: from + length}
		now := w.To + random.Int64N(pool.Day) - pool.Hour
		o, err := s.Runs.ObserveWindow(t.Context(), w, s.Env.Lists)
		require.NoError(t, err)
		known, err := o.History(t.Context(), ads)
		require.NoError(t, err)
		got, err := s.Answer(t.Context(), ads, query.Request{Model: query.Model{QueryType: "backfillAvailability"},
			Window: w, Now: now})
		require.NoError(t, err)
		stats := map[string]float64{}
		for _, stat := range got[0].Meta.Stats {
			stats[stat.DisplayName] = stat.Value
		}

		type claim struct {
			machine int
			number  int32
		}
		counted := map[claim]bool{}
		for _, p := range backfill.Bounds(o) {
			x := &known.Machines[p.Machine]
			if next := int(p.Last) + 1; next < o.End && o.View.Times[next] < w.From {
				continue
			}
			if p.EndRun >= 0 {
				counted[claim{p.Machine, x.Claim(int(p.EndRun))}] = true
			}
			if since := o.Since(w); p.StartRun >= 0 && (p.First > since || p.Last < since) {
				counted[claim{p.Machine, x.Claim(int(p.StartRun))}] = true
			}
		}
		want := linked.ShareOf(known.Explanations, now, func(machine int, e *runs.Explained) bool {
			return counted[claim{machine, known.Machines[machine].Claim(e.Number())}]
		})
		require.EqualValues(t, want.Counted-want.Linked, stats["Runs without a job ad"], "%v", w)
		if rate, ok := stats["Link rate"]; ok || want.Counted >= linked.Fewest {
			require.InDelta(t, want.Rate(), rate, 1e-9, "%v", w)
		}
		counts[want] = true
	}
	require.Greater(t, len(counts), 20)
}
