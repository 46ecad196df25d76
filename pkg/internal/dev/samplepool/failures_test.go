package samplepool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

// A troubled pool has a machine that kills jobs, a user whose jobs fail everywhere, GPUs held for little memory, and
// owners with and without backfill on their GPUs; its truth says which.
func TestTroubled(t *testing.T) {
	p, err := New(Default().Troubled())
	require.NoError(t, err)
	truth, err := p.Truth(t.Context())
	require.NoError(t, err)
	machines := p.Machines()
	starts, failed, places := map[string]float64{}, map[string]float64{}, map[string]bool{}
	little, known := 0, 0
	for _, r := range truth.Runs {
		fails := r.ExitCode != 0 || r.ExitSignal != 0
		if fails && r.Reason == Completed {
			require.Less(t, r.End.Sub(r.Start).Minutes(), 8.1, r.Job)
		}
		bad := strings.HasPrefix(r.User, "user003@")
		for _, of := range []string{r.Machine, r.User} {
			if bad == (of == r.User) { // the machine by others' jobs
				starts[of]++
				if fails {
					failed[of]++
				}
			}
		}
		if bad && fails {
			places[r.Machine] = true
		}
		if r.PeakMiB > 0 {
			known++
			require.LessOrEqual(t, r.PeakMiB, 200_000.0)
			if r.PeakMiB <= 8*1024 {
				little++
			}
		}
	}
	require.Greater(t, failed[machines[2].Name], 0.35*starts[machines[2].Name])
	require.Greater(t, failed["user003@chtc.example.org"], 0.4*starts["user003@chtc.example.org"])
	require.Greater(t, len(places), 4)
	for _, m := range machines {
		if m.Name != machines[2].Name {
			require.Less(t, failed[m.Name], 0.15*starts[m.Name]+3, m.Name)
		}
	}
	require.Greater(t, little, known/4)

	lends, owners := map[bool]int{}, map[string]bool{}
	for _, m := range machines {
		if m.Ownership != pool.OpenCapacity && !m.Excluded {
			lends[m.Backfill]++
			require.False(t, m.Projects != "" && owners[m.Projects], "a project of its own: %s", m.Projects)
			owners[m.Projects] = true
		}
	}
	require.Positive(t, lends[true])
	require.Positive(t, lends[false])
	promised, guests := map[string]int{}, 0
	for _, i := range truth.Queues {
		if promised[i.Own]++; i.Own == "none" && i.Project != "" {
			guests++
		}
	}
	for _, class := range []string{"free", "backfill", "busy", "none"} {
		require.Greater(t, promised[class], 10, class)
	}
	require.Greater(t, guests, 100)

	dir := t.TempDir()
	require.NoError(t, p.WriteTruth(t.Context(), dir))
	for file, field := range map[string]string{"truth.jsonl": `"exitSignal":7`, "truth_waits.jsonl": `"ownGpus":"backfill"`} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		require.Contains(t, string(text), field)
	}
}
