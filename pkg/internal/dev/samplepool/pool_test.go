package samplepool

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
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

func TestMachines(t *testing.T) {
	o := Default()
	o.Machines, o.GPUs = 150, 900
	p, err := New(o)
	require.NoError(t, err)
	gpus, kinds, names, devices := 0, map[string]int{}, map[string]bool{}, map[string]bool{}
	for _, m := range p.Machines() {
		require.NotEmpty(t, m.GPUs)
		require.LessOrEqual(t, len(m.GPUs), 16)
		gpus += len(m.GPUs)
		kinds[fmt.Sprint(m.Ownership, m.Backfill)]++
		names[m.Name], devices[m.Device] = true, true
	}
	require.Equal(t, 900, gpus)
	require.Len(t, names, 150)
	require.Len(t, kinds, 2*pool.Ownerships, "with and without backfill slots, of every owner")
	require.Greater(t, len(devices), 10)
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

func TestWriteMakesEveryFileAndOverwritesNone(t *testing.T) {
	p, err := New(days(Default(), 1))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, p.Write(t.Context(), dir))
	for _, name := range []string{
		"gpu_state_2025-10.db", "chtc_owned", "masked_hosts.yaml", "jobs_history_legacy.jsonl",
		"jobs_history_refactored.jsonl",
		"jobs_epochs.jsonl", "jobs.db", "truth.jsonl", "truth_available.jsonl", "truth_snapshots.txt",
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NotZero(t, info.Size(), name)
	}
	require.ErrorContains(t, p.WriteSnapshots(t.Context(), dir), "chtc_owned")
	require.NoError(t, os.Remove(filepath.Join(dir, "chtc_owned")))
	require.NoError(t, os.Remove(filepath.Join(dir, "masked_hosts.yaml")))
	require.ErrorContains(t, p.WriteSnapshots(t.Context(), dir), "gpu_state_2025-10.db exists")
	require.Error(t, p.WriteAds(t.Context(), dir))
	require.Error(t, p.WriteTruth(t.Context(), dir))
	require.Error(t, p.Write(t.Context(), filepath.Join(dir, "missing")))
}

func TestACancelledCallStops(t *testing.T) {
	p, err := New(Default())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, p.Write(ctx, t.TempDir()), context.Canceled)
	_, err = p.Truth(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = p.Ads(ctx)
	require.ErrorIs(t, err, context.Canceled)
}
