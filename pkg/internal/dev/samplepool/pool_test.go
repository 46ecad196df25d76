package samplepool

import (
	"fmt"
	"hash/fnv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

// days is o with a span of n days.
func days(o Options, n int) Options {
	o.End = o.Start.AddDate(0, 0, n)
	return o
}

func fingerprint(t *testing.T, o Options) uint64 {
	t.Helper()
	p, err := New(o)
	require.NoError(t, err)
	hash := fnv.New64a()
	for shot, err := range p.Snapshots(t.Context()) {
		require.NoError(t, err)
		fmt.Fprintln(hash, shot.Timestamp, shot.Month, shot.Rows)
	}
	truth, err := p.Truth(t.Context())
	require.NoError(t, err)
	fmt.Fprintln(hash, truth)
	ads, err := p.Ads(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, ads)
	for _, ad := range ads {
		fmt.Fprintln(hash, ad.ID, string(ad.JSON), string(ad.Legacy))
	}
	return hash.Sum64()
}

func TestTheSeedDecides(t *testing.T) {
	o := days(Default(), 2)
	first := fingerprint(t, o)
	require.Equal(t, first, fingerprint(t, o))
	o.Seed++
	require.NotEqual(t, first, fingerprint(t, o))
}

// What the collector and the archive lose must not change what happens.
func TestFaultsOfObserversDoNotChangeTheTruth(t *testing.T) {
	o := days(Default(), 3)
	runs := func(o Options) []Run {
		p, err := New(o)
		require.NoError(t, err)
		truth, err := p.Truth(t.Context())
		require.NoError(t, err)
		return truth.Runs
	}
	before := runs(o)
	o.StaleRows, o.MissingAds, o.MissedSnapshots, o.DoubledSnapshots, o.Outages, o.RowNoise, o.MissingMachines = 0, 0.5,
		0.3, 0.2, 9, 0.1, 0.1
	require.Equal(t, before, runs(o))
}

func TestImpossibleOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"4 machines":                  func(o *Options) { o.Machines = 4 },
		"2001 machines":               func(o *Options) { o.Machines = 2001 },
		"11 GPUs on 12 machines":      func(o *Options) { o.GPUs = 11 },
		"it must end after its start": func(o *Options) { o.End = o.Start },
		"cadence 0s":                  func(o *Options) { o.Cadence = 0 },
		`time zone "Mars/Olympus"`:    func(o *Options) { o.Timezone = "Mars/Olympus" },
	} {
		o := Default()
		change(&o)
		_, err := New(o)
		require.ErrorContains(t, err, name)
		require.Equal(t, pool.FaultQuery, pool.FaultOf(err))
	}
}
