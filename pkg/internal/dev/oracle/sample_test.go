package oracle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// seeds are how many pools a test makes up; ORACLE_SEEDS asks for another number, as first-last or count.
func seeds(t testing.TB, usual, short uint64) (from, to uint64) {
	from, to = 1, usual
	if testing.Short() {
		to = short
	}
	if text := os.Getenv("ORACLE_SEEDS"); text != "" {
		if n, err := fmt.Sscanf(text, "%d-%d", &from, &to); n != 2 {
			n, err2 := strconv.ParseUint(text, 10, 64)
			require.NoError(t, err2, "%v", err)
			from, to = 1, n
		}
	}
	return from, to
}

// samplePool is one of many pools: hard or tame, of several zones and cadences.
func samplePool(seed uint64) samplepool.Options {
	r := rand.New(rand.NewPCG(seed, 1))
	o := []func() samplepool.Options{samplepool.Default, samplepool.Default, samplepool.Hard,
		samplepool.RightClocks}[r.IntN(4)]()
	o.Seed = seed
	o.Machines = 5 + r.IntN(6)
	o.ExcludedMachines = r.IntN(2)
	o.Cadence = []time.Duration{5 * time.Minute, 15 * time.Minute, 15 * time.Minute, 15 * time.Minute,
		30 * time.Minute}[r.IntN(5)]
	place := []struct {
		zone  string
		start time.Time
	}{
		{"UTC", time.Date(2025, 9, 29, 7, 0, 0, 0, time.UTC)},
		{"America/Chicago", time.Date(2025, 10, 31, 18, 0, 0, 0, time.UTC)}, // an hour occurs twice on 2 November
		{"America/Chicago", time.Date(2026, 3, 6, 20, 0, 0, 0, time.UTC)},   // an hour is missing on 8 March
		{"Asia/Kathmandu", time.Date(2025, 12, 30, 3, 0, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2026, 4, 3, 9, 0, 0, 0, time.UTC)}, // half an hour occurs twice on 5 April
	}[r.IntN(5)]
	o.Timezone, o.Start = place.zone, place.start
	days := 2 + r.IntN(3)
	if o.Cadence < 10*time.Minute {
		days = 2
	}
	if r.IntN(8) == 0 && o.Cadence >= 15*time.Minute { // longer than the look-back
		days, o.Machines = 12, 5
	}
	o.End = o.Start.Add(time.Duration(days)*24*time.Hour + time.Duration(r.IntN(1440))*time.Minute)
	if r.IntN(3) > 0 {
		o.MissingJobIDs, o.MissingMachines, o.MissingAds, o.StaleRows = 0.04, 0.01, 0.05, 0.10
		o.Holds, o.ShortRuns, o.MachineDown, o.Drains = 0.08, 0.20, 3, 3
		o.MissedSnapshots, o.DoubledSnapshots, o.Outages = 0.03, 0.02, 10
	}
	return o
}

// windowsOf are the whole time of a pool and a few windows of hours and days that cut runs.
func windowsOf(r *records, seed uint64, n int) (list [][2]int64) {
	random := rand.New(rand.NewPCG(seed, 2))
	begin, end := r.snapshots[0].at, r.snapshots[len(r.snapshots)-1].at
	list = append(list, [2]int64{begin - hour, end + 10*minute})
	for range n {
		length := []int64{2 * hour, 6 * hour, day, 3*hour + 7*minute, 2 * day}[random.IntN(5)]
		from := begin + random.Int64N(end-begin)
		switch random.IntN(4) {
		case 0: // on a snapshot
			from = r.snapshots[random.IntN(len(r.snapshots))].at
		case 1: // up to a snapshot
			from = r.snapshots[random.IntN(len(r.snapshots))].at - length
		}
		list = append(list, [2]int64{from, from + length})
	}
	return list
}

// Product and oracle agree on made-up pools, with every kind of job ads.
func TestSamplePools(t *testing.T) {
	first, last := seeds(t, 4, 1)
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			o := samplePool(seed)
			pool, err := samplepool.New(o)
			require.NoError(t, err)
			dir := t.TempDir()
			require.NoError(t, pool.WriteSnapshots(context.Background(), dir))
			require.NoError(t, pool.WriteAds(context.Background(), dir))
			records := readRecords(t, dir, o.Timezone)
			windows := windowsOf(records, seed, 4)
			for _, jobs := range []string{"none", "legacy", "history", "epochs", "both"} {
				p := open(t, records, dir, o.Timezone, jobs, jobFiles[jobs]...)
				for _, w := range windows {
					differences := compare(t, p, records, w[0], w[1])
					for i, d := range differences {
						if i == 5 {
							t.Errorf("… %d more", len(differences)-i)
							break
						}
						t.Errorf("%s, %s to %s (%d machines, %s, every %v): %s", jobs, stamp(w[0]), stamp(w[1]), o.Machines, o.Timezone,
							o.Cadence, d)
					}
				}
			}
		})
	}
}
