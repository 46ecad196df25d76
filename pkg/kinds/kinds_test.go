package kinds

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each view of a kind can be planned and is described, and the columns that it names exist.
func TestKindsDescribeThemselves(t *testing.T) {
	names := map[string]bool{}
	for _, k := range Catalog {
		require.False(t, names[k.Name], k.Name)
		names[k.Name] = true
		require.NotEmpty(t, k.Label)
		require.NotEmpty(t, k.Description)
		require.NotEmpty(t, k.Views)
		views := map[string]bool{}
		for _, v := range k.Views {
			require.False(t, views[v.Name], "%s/%s", k.Name, v.Name)
			views[v.Name] = true
			require.NotEmpty(t, v.Label, "%s/%s", k.Name, v.Name)
			require.NotEmpty(t, v.Description, "%s/%s", k.Name, v.Name)
			require.Subset(t, v.Metrics, v.DefaultMetrics)
			require.Subset(t, k.Views[0].GroupBy, k.DefaultGroupBy)
		}
	}
}
