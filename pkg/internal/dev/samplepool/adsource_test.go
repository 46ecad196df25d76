package samplepool

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/jobs/sqlite"
)

// A source of ads in memory answers as the job file of the same pool does.
func TestAdSource(t *testing.T) {
	p, err := New(days(Default(), 5))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, p.WriteAds(t.Context(), dir))
	file := sqlite.Open(filepath.Join(dir, "jobs.db"))
	defer func() { require.NoError(t, file.Close()) }()
	memory, err := p.AdSource(t.Context(), func(*Ad) bool { return true })
	require.NoError(t, err)

	ads, err := p.Ads(t.Context())
	require.NoError(t, err)
	wanted := []jobs.Wanted{{Job: "none"}}
	var machines []jobs.MachineDay
	var epochs []jobs.EpochDay
	for i, ad := range ads {
		wanted = append(wanted, jobs.Wanted{Job: ad.GlobalJobID})
		if i > 0 {
			continue
		}
		for _, m := range p.Machines() {
			for day := p.Options().Start.Unix() / 86400; day <= p.Options().End.Unix()/86400; day++ {
				on := jobs.MachineDay{Machine: m.Name, Day: int32(day)}
				machines = append(machines, on)
				epochs = append(epochs, jobs.EpochDay{MachineDay: on, Longest: 15 * time.Minute})
			}
		}
	}
	equal := func(ask func(jobs.Source) (jobs.Result, error)) {
		want, err := ask(file)
		require.NoError(t, err)
		got, err := ask(memory)
		require.NoError(t, err)
		found := 0
		for i := range want.Ads {
			require.Len(t, got.Ads[i], len(want.Ads[i]))
			for k := range want.Ads[i] {
				require.Equal(t, want.Ads[i][k], got.Ads[i][k])
			}
			found += len(want.Ads[i])
		}
		require.Greater(t, found, 20)
	}
	equal(func(s jobs.Source) (jobs.Result, error) { return s.Ads(t.Context(), wanted) })
	equal(func(s jobs.Source) (jobs.Result, error) { return s.AdsOnMachines(t.Context(), machines) })
	equal(func(s jobs.Source) (jobs.Result, error) { return s.Epochs(t.Context(), epochs) })
	none, err := p.AdSource(t.Context(), func(*Ad) bool { return false })
	require.NoError(t, err)
	result, err := none.Ads(t.Context(), wanted[1:2])
	require.NoError(t, err)
	require.Empty(t, result.Ads[0])
}
