package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
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

// Groups of tiers add up the devices that the lists put into them, and a filter of memories or tiers leaves what the
// groups of these are: in every kind that knows both.
func TestMemoryAndTier(t *testing.T) {
	source := runstest.Open(t, golden.Pool(t, "pool-b"), "America/Chicago")
	w := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	for _, source.Env.Lists.Tiers = range [][]pool.Tier{nil, {{Name: "Big", Patterns: []string{"A100"}}}} {
		for kind, metric := range map[string]string{"allocation": "available", "userHours": "gpuHours",
			"utilization": "heldGpuHours", "evictions": "gpuHours"} {
			of := func(groupBy, filter string) map[string]float64 {
				sums := map[string]float64{}
				for _, r := range golden.Rows(source.Ask(t, nil, w, fmt.Sprintf(`{"queryType": %q, "view": "summary", "totals": false,
					"limit": 50000, "groupBy": [%q], "metrics": [%q], "filter": %s}`, kind, groupBy, metric, filter))) {
					if r["user"] == nil || r["rowType"] == "user" { // of user hours, not the groups' totals
						sums[fmt.Sprint(r[groupBy])] += r[metric].(float64)
					}
				}
				return sums
			}
			devices, tiers := of("device", `{}`), map[string]float64{}
			for device, sum := range devices {
				if device == "Unknown" {
					device = ""
				}
				tiers[source.Env.Lists.TierOf(device)] += sum
			}
			found := of("tier", `{}`)
			require.Len(t, found, len(tiers), kind)
			for tier, sum := range tiers {
				require.InDelta(t, sum, found[tier], 1e-6, "%s of %s", kind, tier)
				require.InDelta(t, sum, of("tier", fmt.Sprintf(`{"tiers": [%q]}`, tier))[tier], 1e-6, "%s of %s", kind, tier)
			}
			byMemory := of("memory", `{}`)
			require.Greater(t, len(byMemory), 1, kind)
			for _, class := range pool.MemoryClasses {
				chosen := of("memory", fmt.Sprintf(`{"memories": [%q]}`, class))
				if sum, there := byMemory[class]; there {
					require.Len(t, chosen, 1, "%s of %s", kind, class)
					require.InDelta(t, sum, chosen[class], 1e-6, "%s of %s", kind, class)
				} else {
					require.Empty(t, chosen, "%s of %s", kind, class)
				}
			}
		}
	}
}

// What includeOldDevices: false leaves out is said, in every kind, with the devices and their GPUs.
func TestOldDevicesLeftOut(t *testing.T) {
	dir := t.TempDir()
	row := func(id, device string) snapshotstest.Row {
		return snapshotstest.Row{"Name": "slot1@m1", "AssignedGPUs": id, "State": "Unclaimed", "Machine": "m1",
			"GPUs_DeviceName": device, "timestamp": "2025-06-02 10:00:00.000000"}
	}
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-06.db": {row("GPU-1", "NVIDIA A40"),
		row("GPU-2", "NVIDIA A40"), row("GPU-3", "Tesla P100-PCIE-16GB"), row("GPU-4", "NVIDIA RTX A4000")}})
	source := runstest.Open(t, dir, "UTC")
	w := golden.Window(t, "2025-06-02T09:00:00Z", "2025-06-02T11:00:00Z")
	for _, kind := range []string{"allocation", "userHours", "utilization", "backfillAvailability", "evictions"} {
		for filter, want := range map[string]string{
			`{}`:                          "old devices are left out: 3 GPUs (2 NVIDIA A40, 1 Tesla P100-PCIE-16GB)",
			`{"devices": ["NVIDIA A40"]}`: "old devices are left out: 2 GPUs (2 NVIDIA A40)",
		} {
			frames := source.Ask(t, nil, w, fmt.Sprintf(`{"queryType": %q, "view": "summary", "includeOldDevices": false,
				"filter": %s}`, kind, filter))
			require.Contains(t, golden.Told(frames), want+"\n", kind)
		}
	}
}

// The period before is answered as if it were asked for, without notices about it; one that snapshots cover less has no
// rows, and the notice says how much less.
func TestPeriodBefore(t *testing.T) {
	var rows []snapshotstest.Row
	for at := time.Date(2025, 6, 2, 10, 0, 0, 0, time.UTC); at.Hour() < 14; at = at.Add(15 * time.Minute) {
		row := snapshotstest.Row{"Name": "slot1@m1", "AssignedGPUs": "GPU-1", "State": "Unclaimed", "Machine": "m1",
			"GPUs_DeviceName": "NVIDIA A40", "timestamp": at.Format("2006-01-02 15:04:05.000000")}
		if at.Hour() == 11 {
			row["State"], row["RemoteOwner"] = "Claimed", "ann@x"
		}
		rows = append(rows, row)
	}
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-06.db": rows})
	source := runstest.Open(t, dir, "UTC")
	const asked = `{"queryType": "userHours", "groupBy": [], "metrics": ["gpuHours"], "previous": %v,
		"filter": {"users": ["ann@x", "nobody"]}}`
	after := golden.Window(t, "2025-06-02T12:00:00Z", "2025-06-02T14:00:00Z")
	before := source.Ask(t, nil, after, fmt.Sprintf(asked, true))
	require.InDelta(t, 1, golden.Rows(before)[0]["gpuHours"], 1e-6)
	require.Empty(t, before[0].Meta.Notices)

	longer := source.Ask(t, nil, golden.Window(t, "2025-06-02T11:00:00Z", "2025-06-02T14:00:00Z"), fmt.Sprintf(asked,
		true))
	require.Empty(t, golden.Rows(longer))
	require.NotEmpty(t, longer[0].Fields, "panels say in them that there is not enough data")
	require.Contains(t, longer[0].Meta.Notices[0].Text, "1 of 3 h of the period before are covered, and 3 h")
}
