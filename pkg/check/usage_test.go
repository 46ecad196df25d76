package check

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// Months whose averages have lost their fractions are named, in either format; those of startds are not.
func TestUsage(t *testing.T) {
	for _, format := range []string{"sqlite", "parquet"} {
		p, dir := made(t, good(func(o *samplepool.Options) { o.Format = format }))
		_, suspicious := look(t, open(t, dir, "UTC", p.Options().End))["usage"]
		require.False(t, suspicious)
	}
	for change, want := range map[string]string{
		"GPUsAverageUsage = CAST(GPUsAverageUsage AS INTEGER)": "GPUsAverageUsage cannot be right in 2025-10 (whole " +
			"numbers only): ",
		"GPUsAverageUsage = 0":    "GPUsAverageUsage cannot be right in 2025-10 (all 0): ",
		"GPUsAverageUsage = NULL": "",
	} {
		p, dir := made(t, good())
		db, err := sql.Open("sqlite", filepath.Join(dir, "gpu_state_2025-10.db"))
		require.NoError(t, err)
		_, err = db.Exec("UPDATE gpu_state SET " + change + " WHERE GPUsAverageUsage IS NOT NULL")
		require.NoError(t, err)
		require.NoError(t, db.Close())
		found := look(t, open(t, dir, "UTC", p.Options().End))["usage"]
		if want == "" {
			require.Empty(t, found)
			continue
		}
		require.Equal(t, Warning, found.Severity)
		require.Contains(t, found.Text, want)
		require.NotContains(t, found.Text, "2025-11")
	}
}
