package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// Hand-worked cases, one rule each.
func TestGoldenCases(t *testing.T) {
	kinds := []string{"allocation", "userHours", "backfillAvailability", "evictions", "utilization", "demand"}
	asked := map[string]int{}
	for _, c := range golden.Cases(t, kinds...) {
		t.Run(c.Name, func(t *testing.T) {
			s := runstest.Open(t, c.Write(t), c.Settings.Timezone)
			s.Env.SliceMinutes = c.Settings.SliceMinutes
			for i := range c.Queries {
				q := &c.Queries[i]
				t.Log(q.Window, q.Jobs, string(q.Query))
				w := golden.Window(t, q.Window[0], q.Window[1])
				q.Expect.Check(t, s.Ask(t, runstest.AdsOf(t, &c, q), w, string(q.Query)))
				asked[q.Kind()]++
			}
		})
	}
	for _, kind := range kinds {
		require.Greater(t, asked[kind], 10, kind)
	}
}

// canceling is a source during whose lookup the caller goes away.
type canceling struct {
	jobs.Source
	cancel func()
}

func (c canceling) Ads(ctx context.Context, _ []jobs.Wanted) (jobs.Result, error) {
	c.cancel()
	return jobs.Result{}, pool.SourceError("the request was broken off: %w", ctx.Err())
}

// A job source that does not answer leaves the answer of the snapshots, with a warning that says why; one that is not
// set up, too, without a warning. A bug is not hidden behind a notice.
func TestJobSourceFaults(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-b"), "America/Chicago")
	w := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	for _, kind := range []string{"backfillAvailability", "evictions", "utilization"} {
		text := fmt.Sprintf(`{"queryType": %q, "view": "summary", "totals": false}`, kind)
		alone := s.Ask(t, nil, w, text)
		require.Contains(t, golden.Told(alone), "no job source is set up", kind)

		down := &jobstest.Memory{Err: pool.SourceError("Elasticsearch at http://es:9200 does not answer: start it")}
		frames := s.Ask(t, down, w, text)
		require.Equal(t, golden.Rows(alone), golden.Rows(frames), kind)
		require.Contains(t, golden.Warned(frames), "http://es:9200 does not answer: start it", kind)

		partial := runstest.Ads(t, "pool-b", "jobs_epochs.jsonl").(*jobstest.Memory)
		partial.Notices = []string{"2 of 5 shards failed"}
		require.Contains(t, golden.Warned(s.Ask(t, partial, w, text)), "2 of 5 shards failed", kind)

		ask := func(ctx context.Context, source jobs.Source) error {
			m, err := query.Parse([]byte(text))
			require.NoError(t, err)
			_, err = s.Answer(ctx, source, query.Request{Model: m, Window: w, Now: w.To})
			return err
		}
		bug := errors.New("a bug")
		require.ErrorIs(t, ask(t.Context(), &jobstest.Memory{Err: bug}), bug, kind)
		ctx, cancel := context.WithCancel(t.Context())
		require.ErrorIs(t, ask(ctx, canceling{jobstest.NewMemory(), cancel}), context.Canceled,
			"%s: a lookup that was called off is no failure of the source", kind)
		require.ErrorIs(t, ask(ctx, nil), context.Canceled, kind)
	}
}
