package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/jobs"
)

// A large job file: making it, and 100,000 jobs looked up in it.
func BenchmarkJobFile100k(b *testing.B) {
	const n = 100_000
	content, err := os.ReadFile("../testdata/history_refactored.jsonl")
	require.NoError(b, err)
	template, _, _ := strings.Cut(string(content), "\n")
	original, err := jobs.ParseAd([]byte(template))
	require.NoError(b, err)
	var lines bytes.Buffer
	wanted := make([]jobs.Wanted, n)
	for i := range wanted {
		wanted[i].Job = fmt.Sprintf("ap2001.chtc.example.org#%d.0#1761929243", 1_000_000+i)
		lines.WriteString(strings.Replace(template, original.GlobalJobID, wanted[i].Job, 1) + "\n")
	}
	path := filepath.Join(b.TempDir(), "jobs.db")
	begin := time.Now()
	report, err := Import(b.Context(), path, "auto", Input{"ads", &lines})
	require.NoError(b, err)
	require.Equal(b, n, report.Stored)
	b.Logf("import: %v", time.Since(begin).Round(time.Millisecond))
	b.Run("by job", func(b *testing.B) {
		for b.Loop() {
			result, err := Open(path).Ads(b.Context(), wanted)
			require.NoError(b, err)
			require.Len(b, result.Ads[n-1], 1)
		}
	})
	b.Run("by machine", func(b *testing.B) {
		for b.Loop() {
			result, err := Open(path).AdsOnMachines(b.Context(),
				[]jobs.MachineDay{{Machine: original.Machine, Day: int32(original.JobCurrentStartDate / 86400)}})
			require.NoError(b, err)
			require.Len(b, result.Ads[0], n)
		}
	})
	b.Run("newest", func(b *testing.B) {
		for b.Loop() {
			_, err := Open(path).Newest(b.Context())
			require.NoError(b, err)
		}
	})
}
