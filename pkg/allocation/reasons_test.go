package allocation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
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

// Prevented GPUs are divided by reason.
func TestReasons(t *testing.T) {
	w := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
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
