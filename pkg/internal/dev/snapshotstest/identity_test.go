package snapshotstest

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

func identity(t *testing.T, state snapshots.State, date int32) string {
	t.Helper()
	key, err := state.Key(t.Context(), date)
	require.NoError(t, err)
	require.NotEmpty(t, state.Identity(key))
	return state.Identity(key)
}

// A day's identity depends on its rows only: every edit shows in it, however small, and no other change does.
func (s suite) identity(t *testing.T) {
	rows, later := quarters(0, 200), quarters(9*96, 9*96+1) // the other month is the newest
	date := pool.DayOf(first)
	write := func(rows []Stamped) snapshots.State {
		dir := t.TempDir()
		s.Write(t, s.path(dir, october), Plain(rows))
		s.Append(t, s.path(dir, november), Plain(later))
		return look(t, s.open(t, dir, "UTC"))
	}
	want := identity(t, write(rows), date)
	require.Equal(t, want, identity(t, write(rows), date), "the same rows elsewhere")
	for column, value := range map[string]any{
		"State": "Drained", "RemoteOwner": "bobby", "GlobalJobId": "ap#1.0#1756000000", snapshots.UsageColumn: 0.123,
		"PreventJobsReason": "no", "GPUs_DeviceName": "NVIDIA H100", "AssignedGPUs": "GPU-9",
	} {
		for _, n := range []int{0, 131} {
			edited := slices.Clone(rows)
			edited[n].Row = maps.Clone(edited[n].Row)
			edited[n].Row[column] = value
			require.NotEqual(t, want, identity(t, write(edited), date), "%s of row %d", column, n)
		}
	}
	swapped := slices.Clone(rows) // of the same bytes and with the same smallest and largest values
	i := slices.IndexFunc(rows, func(r Stamped) bool { return r.Row["State"] == "Claimed" })
	j := i + 1 + slices.IndexFunc(rows[i+1:], func(r Stamped) bool {
		return r.Row["State"] == "Claimed" && r.Row["GlobalJobId"] != rows[i].Row["GlobalJobId"]
	})
	swapped[i].Row, swapped[j].Row = maps.Clone(rows[i].Row), maps.Clone(rows[j].Row)
	swapped[i].Row["GlobalJobId"], swapped[j].Row["GlobalJobId"] = rows[j].Row["GlobalJobId"], rows[i].Row["GlobalJobId"]
	require.NotEqual(t, want, identity(t, write(swapped), date), "two rows swap their jobs")
	require.NotEqual(t, want, identity(t, write(slices.Delete(slices.Clone(rows), 100, 101)), date), "a row less")
}

// The identity of a finished day does not change while its month grows, for every process.
func (s suite) identityOfGrowth(t *testing.T) {
	dir := t.TempDir()
	path := s.path(dir, october)
	s.Append(t, path, Plain(quarters(0, 130)))
	source := s.open(t, dir, "UTC")
	date := pool.DayOf(first)
	want := identity(t, look(t, source), date)
	for n := 130; n < 190; n += 20 {
		s.Append(t, path, Plain(quarters(n, n+20)))
		require.Equal(t, want, identity(t, look(t, source), date))
		there := t.TempDir()
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(s.path(there, october), content, 0o600))
		require.Equal(t, want, identity(t, look(t, s.open(t, there, "UTC")), date), "a copy")
		require.NotEqual(t, want, identity(t, look(t, s.open(t, there, "Europe/Berlin")), date), "another zone")
	}
}
