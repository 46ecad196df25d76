package allocation_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/pool"
)

// sums adds up a metric of a table's rows by the values of some columns.
func sums(rows []map[string]any, metric string, by func(row map[string]any) string) map[string]float64 {
	found := map[string]float64{}
	for _, r := range rows {
		if v, ok := r[metric].(float64); ok {
			found[by(r)] += v
		}
	}
	return found
}

// Tiers consist of the devices that the lists put into them, as a grouping and as a filter; prevented GPUs are divided
// by reason.
func TestTiersAndReasons(t *testing.T) {
	w := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	for _, tiers := range [][]pool.Tier{nil, {{Name: "Big", Patterns: []string{"A100"}}}} {
		s := open(t, golden.Pool(t, "pool-b"), "America/Chicago", 15)
		s.Env.Lists.Tiers = tiers
		table := func(groupBy, filter string) []map[string]any {
			return golden.Rows(s.Ask(t, nil, w, `{"queryType": "allocation", "view": "summary", "totals": false, "groupBy": [`+groupBy+`], "filter": `+filter+`}`))
		}
		devices, byTier := table(`"device"`, `{}`), table(`"tier"`, `{}`)
		for _, metric := range []string{"allocated", "available", "free", "drained", "prevented"} {
			want := sums(devices, metric, func(r map[string]any) string {
				device := r["device"].(string)
				if device == "Unknown" {
					device = ""
				}
				return s.Env.Lists.TierOf(device) + r["slots"].(string)
			})
			got := sums(byTier, metric, func(r map[string]any) string { return r["tier"].(string) + r["slots"].(string) })
			require.Len(t, got, len(want))
			for group, v := range want {
				require.InDelta(t, v, got[group], 1e-9, "%s of %s", metric, group)
			}
		}
		name := s.Env.Lists.TierOf("NVIDIA A100-SXM4-80GB")
		text, err := json.Marshal(map[string]any{"tiers": []string{name}})
		require.NoError(t, err)
		chosen := table(`"tier"`, string(text))
		require.NotEmpty(t, chosen)
		for _, r := range chosen {
			require.Equal(t, name, r["tier"])
		}
	}

	s := open(t, golden.Pool(t, "pool-b"), "America/Chicago", 15)
	reasons := golden.Rows(s.Ask(t, nil, w, `{"queryType": "allocation", "view": "summary", "totals": false, "groupBy": ["preventReason"]}`))
	all := golden.Rows(s.Ask(t, nil, w, `{"queryType": "allocation", "view": "summary", "totals": false, "groupBy": ["slots"]}`))
	side := func(r map[string]any) string { return r["slots"].(string) }
	prevented, total := sums(reasons, "prevented", side), sums(all, "prevented", side)
	require.Greater(t, total["Real"], 0.0)
	require.InDelta(t, total["Real"], prevented["Real"], 1e-9)
	named := 0
	for _, r := range reasons {
		if r["preventReason"] == "" {
			require.Zero(t, r["prevented"], "a GPU without a reason is not prevented")
		} else {
			named++
		}
	}
	require.Positive(t, named)
	current := golden.Rows(s.Ask(t, nil, w, `{"queryType": "allocation", "view": "current"}`))
	for _, r := range current {
		if r["state"] == "Prevented" {
			require.NotEmpty(t, strings.TrimSpace(r["preventReason"].(string)))
		}
	}
}
