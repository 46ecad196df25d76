// Package samplepool makes up an HTCondor GPU pool and its truth, deterministic by seed: the month files that a
// collector would have written, the job ads of its access points, and what really happened. The demo, tests and
// benchmarks use it.
//
//	p, err := samplepool.New(samplepool.Default())
//	err = p.Write(ctx, dir)               // everything, as files
//	for s, err := range p.Snapshots(ctx)  // the same snapshots in memory
//	truth, err := p.Truth(ctx)            // runs, availability, snapshot times
//
// Every call simulates afresh with the same outcome; only Truth and Ads hold more than a pool's present in memory.
package samplepool

import (
	"github.com/chtc/gpureports/pkg/localtime"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
)

// Options describe a pool. Start from Default, Hard or RightClocks and change what matters; shares lie in 0–1.
type Options struct {
	Seed     uint64        // the same options give the same pool, byte for byte
	Machines int           // 5–2,000
	GPUs     int           // Machines–16·Machines; 0: as the machines come, about 5.3 each
	Start    time.Time     // beginning of the snapshots
	End      time.Time     // the pool's "now": later nothing is known, jobs still queued have no history ad
	Cadence  time.Duration // between collector runs, 1m–1h
	Timezone string        // IANA name of the collector's local time: timestamp text, month files, working hours
	// NewColumns is the first local month whose file has PreventJobsReason and Disk; zero: the month after Start's.
	NewColumns time.Time
	// Format of the month files: "sqlite" or "parquet".
	Format string

	// Polls is the time between polls of the access points' queues, 5m–2h; 0: they are not polled.
	Polls time.Duration

	// What makes reading hard. Shares of runs hold for the backfill and the primary side alike.

	ShortRuns float64 // of finished runs, those shorter than a cadence
	// of completed backfill runs, those with a primary claim of one of their GPUs within a cadence
	OwnerAfterCompletion float64
	// of finished runs, those put on hold; half of these jobs are released and run again
	Holds float64
	// share of owner claims of a GPU in a backfill slot that leave its backfill row in one more snapshot
	StaleRows     float64
	MissingAds    float64 // of job ads (history and epoch), those that never reached the archive
	MissingJobIDs float64 // of runs, those whose rows carry no GlobalJobId
	Checkpoints   float64 // of backfill jobs, those that save, every 0.5–4 h, which their epoch ads say
	// largest error of an access point's clock (0–15 min): one is nearly that fast, one nearly that slow
	ClockSkew        time.Duration
	MissedSnapshots  float64 // of collector runs, those that did not happen
	LateSnapshots    float64 // of collector runs, those 1–5 min late (at most a third of the cadence)
	DoubledSnapshots float64 // of collector runs, those done twice: half within 60 s (one snapshot), half later
	MissingMachines  float64 // of (machine, snapshot), those without the machine's rows
	// of the collector, per 30 days, each 1–6 h; any > 0 gives at least one when the pool lasts 2 days
	Outages float64
	// per machine and 30 days, each 2–24 h: backfill jobs go, primary ones may finish within 2 h
	Drains      float64
	MachineDown float64 // per machine and 30 days, each 20 min–24 h: jobs are lost, the machine has no rows
	// median hours of an owner's job, 0.25–24; it does not change the owners' total demand: fewer hours mean more claims
	OwnerHours float64
	Crowded    float64 // per machine and 30 days, 2–24 h: jobs without GPUs hold nearly all CPUs, no owner's job starts
	Prevented  float64 // per machine and 30 days, each 2–24 h: PreventJobsReason is set, no job starts
	// of rows, those doubled, and as many with a passing state (Matched, Preempting); a tenth as many without GPU or
	// RemoteOwner
	RowNoise float64
	// OddMachines makes one machine each (as far as they suffice) with: a CHTC entry and blank projects, NULL projects,
	// blank projects, a change of owner halfway, interactive slots, NULL memory, NULL device on dynamic slots, a GPU id of
	// another machine.
	OddMachines bool
	// ExcludedMachines is the number of machines that masked_hosts.yaml excludes.
	ExcludedMachines int

	// Lending makes owners that want to know what lending costs them: each of their machines has a project of its own,
	// their jobs have it too and are queued when they are wanted, and one of them lends nothing. Other jobs have projects
	// without machines.
	Lending bool
	// of starts, those of jobs that fail by themselves within minutes; some users' fail more often, some never
	Failures float64
	// more of the starts on one machine (pool.Machines()[2]) that fail within minutes
	BadMachine float64
	// more of the starts of one user (user003) that fail within minutes, on whatever machine
	BadUser float64
}

// Troubled gives a pool what operators look for: owners that lend, a machine that kills jobs, a user whose jobs fail
// everywhere.
func (o Options) Troubled() Options {
	o.Lending, o.Failures, o.BadMachine, o.BadUser = true, 0.03, 0.5, 0.6
	return o
}

// Default is a small pool over a week, with a month's end and a repeated hour, hard on purpose: every kind of fault
// occurs.
func Default() Options {
	return Options{
		Seed: 1, Machines: 12,
		Start: time.Date(2025, 10, 28, 0, 0, 0, 0, time.UTC), End: time.Date(2025, 11, 4, 0, 0, 0, 0, time.UTC),
		Cadence: 15 * time.Minute, Timezone: "America/Chicago", Format: "sqlite", Polls: 30 * time.Minute,
		ShortRuns: 0.04, OwnerAfterCompletion: 0.06, Holds: 0.025, StaleRows: 0.025, MissingAds: 0.01, MissingJobIDs: 0.005,
		Checkpoints: 0.6,
		ClockSkew:   120 * time.Second, MissedSnapshots: 0.015, LateSnapshots: 0.01, DoubledSnapshots: 0.012,
		MissingMachines: 0.0005,
		Outages:         1, Drains: 0.3, MachineDown: 0.3, OwnerHours: 4, Prevented: 0.1, RowNoise: 0.002, OddMachines: true,
		ExcludedMachines: 1,
	}
}

// Hard is the pool that accuracy is measured on: clocks off by up to two minutes, 15% of runs shorter than the
// cadence, 10 % of completions followed by an owner at once, holds and missing ads; drains and machines down, but no
// missing snapshots and rows without noise, because events that were never seen cannot be reported. Owners come often:
// about as many backfill runs are evicted as complete.
func Hard() Options {
	o := Default()
	o.Machines, o.ExcludedMachines, o.OddMachines = 40, 0, false
	o.Timezone, o.Start, o.End = "UTC", time.Date(2025, 9, 25, 0, 0, 0, 0, time.UTC),
		time.Date(2025, 10, 9, 0, 0, 0, 0, time.UTC)
	o.ShortRuns, o.OwnerAfterCompletion, o.Holds, o.OwnerHours = 0.15, 0.10, 0.035, 2.5
	o.MissedSnapshots, o.LateSnapshots, o.DoubledSnapshots, o.MissingMachines, o.Outages = 0, 0, 0, 0, 0
	o.MissingJobIDs, o.RowNoise = 0, 0
	return o
}

// RightClocks is Hard's pool without hardness: exact clocks, every ad there, no stale rows, no more short runs and
// follow-ups than Default has.
func RightClocks() Options {
	o := Hard()
	o.ShortRuns, o.OwnerAfterCompletion, o.Holds, o.StaleRows = 0.04, 0.06, 0.02, 0
	o.ClockSkew, o.MissingAds, o.OwnerHours = 0, 0, Default().OwnerHours
	return o
}

func (o Options) check() (*time.Location, error) {
	for _, fault := range []struct {
		found bool
		text  string
		args  []any
	}{
		{o.Machines < 5 || o.Machines > 2000, "%d machines; possible are 5 to 2000", []any{o.Machines}},
		{o.GPUs != 0 && (o.GPUs < o.Machines || o.GPUs > maxGPUs*o.Machines),
			"%d GPUs on %d machines; possible are %d to %d, or 0", []any{o.GPUs, o.Machines, o.Machines, maxGPUs * o.Machines}},
		{!o.End.After(o.Start) || o.Start.Year() < 2000,
			"it must end after its start, in this century; it is to last from %v to %v", []any{o.Start, o.End}},
		{o.Cadence < time.Minute || o.Cadence > time.Hour, "cadence %v; possible is 1m to 1h", []any{o.Cadence}},
		{o.Format != "sqlite" && o.Format != "parquet", "format %q; possible are sqlite and parquet", []any{o.Format}},
	} {
		if fault.found {
			return nil, pool.BadQuery("sample pool: "+fault.text, fault.args...)
		}
	}
	zone, err := localtime.Location(o.Timezone)
	if err != nil {
		return nil, pool.BadQuery("sample pool: time zone %q: %w", o.Timezone, err)
	}
	return zone, nil
}
