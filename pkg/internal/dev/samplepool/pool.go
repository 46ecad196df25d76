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
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/localtime"
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

const (
	maxGPUs = 16 // of a machine
	domain  = ".chtc.example.org"
)

// Machine is an execute machine of the pool.
type Machine struct {
	Name      string
	Ownership pool.Ownership // what its rows and chtc_owned say at the pool's Start
	Device    string         // GPUs_DeviceName
	MemoryMB  int            // GPUs_GlobalMemoryMb, MiB
	GPUs      []string       // ids
	Projects  string         // PrioritizedProjects at the pool's Start
	Backfill  bool           // it has backfill slots
	Excluded  bool           // masked_hosts.yaml excludes it

	load         float64 // share of its GPUs that its owner wants, on average
	primarySlot  string  // slot1, or interactive1
	nullProjects bool    // NULL instead of an empty PrioritizedProjects
	nullMemory   bool
	nullDevice   bool      // on dynamic slots
	changed      time.Time // from here on newProjects are its projects; zero: never
	newProjects  string
}

// Pool is a made-up pool. It is safe for concurrent use.
type Pool struct {
	options  Options
	zone     *time.Location
	machines []Machine
	schedds  []AccessPoint
	users    []string // user@domain; the front ones ask for more
	runs     []time.Time
}

// AccessPoint queues jobs and writes their ads, by its own clock.
type AccessPoint struct {
	Name       string // the first part of its jobs' GlobalJobId
	ClockAhead int64  // seconds; negative: its clock is slow
}

// New makes a pool; an error says which option is impossible.
func New(o Options) (*Pool, error) {
	zone, err := o.check()
	if err != nil {
		return nil, err
	}
	o.Start, o.End = o.Start.UTC(), o.End.UTC()
	if o.NewColumns.IsZero() {
		start := o.Start.In(zone)
		o.NewColumns = time.Date(start.Year(), start.Month()+1, 1, 0, 0, 0, 0, zone)
	}
	p := &Pool{options: o, zone: zone}
	p.makeMachines(p.random("machines"))
	p.makeSchedds(p.random("access points"))
	for i := range min(10+o.Machines, 400) {
		p.users = append(p.users, fmt.Sprintf("user%03d@chtc.example.org", i))
	}
	p.users[1] = "osg@ospool.example.org"
	p.runs = p.collectorRuns(p.random("collector"))
	return p, nil
}

// Options are the options that the pool was made with.
func (p *Pool) Options() Options { return p.options }

// Machines lists the pool's machines in the order of their rows.
func (p *Pool) Machines() []Machine { return slices.Clone(p.machines) }

// AccessPoints lists the pool's access points.
func (p *Pool) AccessPoints() []AccessPoint { return slices.Clone(p.schedds) }

// random is the stream of random numbers for one purpose: what one part draws never changes what another one sees.
func (p *Pool) random(purpose string) *rand.Rand {
	const prime = 1099511628211 // FNV-1a
	hash := uint64(14695981039346656037)
	for _, b := range []byte(purpose) {
		hash = (hash ^ uint64(b)) * prime
	}
	return rand.New(rand.NewPCG(p.options.Seed, hash))
}

// devices with their memory in MiB; a pool's first machines get the first ones, so that small pools have variety too.
var devices = []struct {
	name   string
	memory int
	gpus   int // of a typical machine
	share  float64
}{
	{"NVIDIA H200", 143771, 8, 0.08},
	{"NVIDIA L40S", 45589, 8, 0.16},
	{"NVIDIA A100-SXM4-80GB", 81153, 4, 0.14},
	{"NVIDIA GeForce RTX 2080 Ti", 11019, 8, 0.14},
	{"NVIDIA GeForce GTX 1080 Ti", 11172, 8, 0.08},
	{"NVIDIA H100 80GB HBM3", 81559, 8, 0.10},
	{"NVIDIA A100-SXM4-40GB", 40445, 4, 0.10},
	{"NVIDIA H200 NVL", 143156, 4, 0.03},
	{"NVIDIA A40", 45634, 4, 0.04},
	{"Quadro RTX 6000", 24220, 4, 0.03},
	{"NVIDIA RTX A4000", 16117, 2, 0.03},
	{"NVIDIA B200", 183359, 8, 0.02},
	{"Tesla P100-PCIE-16GB", 16276, 2, 0.03},
	{"NVIDIA RTX 6000 Ada Generation", 49140, 4, 0.02},
}

var projects = []string{"Bio_One", "Chem_Two", "CS_Three", "Geo_Four", "CS_Five", "Stat_Six", "Physics_Seven",
	"ChemE_Eight", "DSI", "IceCube"}

func (p *Pool) makeMachines(rnd *rand.Rand) {
	o := p.options
	kinds := [...]pool.Ownership{pool.CHTCOwned, pool.ResearcherOwned, pool.OpenCapacity, pool.ResearcherOwned,
		pool.OpenCapacity}
	p.machines = make([]Machine, o.Machines)
	for i := range p.machines {
		m := &p.machines[i]
		m.Ownership, m.primarySlot = kinds[i%len(kinds)], "slot1"
		device := i
		if i >= len(devices) {
			device = 0
			for x := rnd.Float64(); device < len(devices)-1 && x >= devices[device].share; device++ {
				x -= devices[device].share
			}
		}
		m.Device, m.MemoryMB = devices[device].name, devices[device].memory
		m.GPUs = make([]string, max(1, devices[device].gpus-rnd.IntN(2)*rnd.IntN(3)))
		backfill := 1.0
		switch m.Ownership {
		case pool.CHTCOwned:
			m.Name, m.load = fmt.Sprintf("greekgpu%d", 4000+i), 0.5+0.4*rnd.Float64()
			m.Projects = projects[rnd.IntN(len(projects))]
			backfill = 0.9
		case pool.ResearcherOwned:
			m.Name, m.load = fmt.Sprintf("%s%d", [...]string{"isye", "lab", "gitter", "geo"}[rnd.IntN(4)], 2000+i),
				0.25+0.6*rnd.Float64()
			m.Projects = projects[rnd.IntN(len(projects))]
			if rnd.IntN(4) == 0 {
				m.Projects += "," + projects[rnd.IntN(len(projects))]
			}
			backfill = 0.85
		case pool.OpenCapacity:
			m.Name, m.load = fmt.Sprintf("gpu%d", 2000+i), 0.55+0.35*rnd.Float64()
			backfill = 0.5
		}
		m.Backfill = i < len(kinds) || rnd.Float64() < backfill
		if i >= o.Machines-o.ExcludedMachines {
			m.Name, m.Excluded = fmt.Sprintf("voyles%d", 2000+i), true
		}
		m.Name += domain
	}
	if o.Lending {
		p.lend()
	}
	p.shareOutGPUs(rnd)
	seen := map[uint32]bool{}
	for i := range p.machines {
		for g := range p.machines[i].GPUs {
			id := rnd.Uint32()
			for seen[id] {
				id = rnd.Uint32()
			}
			seen[id] = true
			p.machines[i].GPUs[g] = fmt.Sprintf("GPU-%08x", id)
		}
	}
	if o.OddMachines {
		p.makeOdd()
	}
}

// lend gives each owner's machine a project of its own; one of them has no backfill slots.
func (p *Pool) lend() {
	owners := 0
	for i := range p.machines {
		m := &p.machines[i]
		if m.Ownership == pool.OpenCapacity {
			continue
		}
		m.Projects = projects[owners%len(projects)]
		if owners >= len(projects) {
			m.Projects += fmt.Sprintf("_%d", owners/len(projects)+1)
		}
		if owners++; i == 8 {
			m.Backfill = false
		}
	}
}

// shareOutGPUs makes the machines' GPUs add up to the requested number.
func (p *Pool) shareOutGPUs(rnd *rand.Rand) {
	if p.options.GPUs == 0 {
		return
	}
	missing := p.options.GPUs
	for i := range p.machines {
		missing -= len(p.machines[i].GPUs)
	}
	for missing != 0 {
		m := &p.machines[rnd.IntN(len(p.machines))]
		switch {
		case missing > 0 && len(m.GPUs) < maxGPUs:
			m.GPUs = append(m.GPUs, "")
			missing--
		case missing < 0 && len(m.GPUs) > 1:
			m.GPUs = m.GPUs[1:]
			missing++
		}
	}
}

// makeOdd gives a machine each, after the first five, something that naive readers stumble over.
func (p *Pool) makeOdd() {
	odd := []struct {
		kind pool.Ownership
		make func(m *Machine)
	}{
		{pool.CHTCOwned, func(m *Machine) { m.Projects = "" }},
		{pool.ResearcherOwned, func(m *Machine) { m.nullMemory = true }},
		{pool.OpenCapacity, func(m *Machine) { m.nullProjects = true }},
		{pool.ResearcherOwned, func(m *Machine) { m.nullDevice = true }},
		{pool.OpenCapacity, func(m *Machine) {
			m.changed, m.newProjects = p.options.Start.Add(p.options.End.Sub(p.options.Start)/2), "CS_Five"
		}},
		{pool.CHTCOwned, func(m *Machine) {
			for g, id := range m.GPUs {
				m.GPUs[g] = strings.Replace(id, "GPU-", "MIG-", 1) + "-5e06-5e22-9d00-0123456789ab"
			}
		}},
		{pool.ResearcherOwned, func(m *Machine) { m.GPUs[0] = p.machines[0].GPUs[0] }},
		{pool.OpenCapacity, func(m *Machine) { m.Projects = "  " }},
		{pool.OpenCapacity, func(m *Machine) { m.primarySlot = "interactive1" }},
	}
	for i := 5; i < len(p.machines); i++ {
		m := &p.machines[i]
		for k := range odd {
			if odd[k].kind == m.Ownership && !m.Excluded {
				odd[k].make(m)
				odd = slices.Delete(odd, k, k+1)
				break
			}
		}
	}
}

func (p *Pool) makeSchedds(rnd *rand.Rand) {
	skew := p.options.ClockSkew.Seconds()
	for i := range min(3+p.options.Machines/40, 12) {
		s := AccessPoint{Name: fmt.Sprintf("ap%d%s", 2001+i, domain)}
		switch i {
		case 0:
			s.ClockAhead = int64(0.98 * skew)
		case 1:
			s.ClockAhead = -int64(0.9 * skew)
		default:
			s.ClockAhead = int64((rnd.Float64()*2 - 1) * skew)
		}
		p.schedds = append(p.schedds, s)
	}
}

// ownersUser draws from the handful of users of a machine's first project; open capacity is anybody's.
func (p *Pool) ownersUser(m *Machine, rnd *rand.Rand) string {
	if m.Ownership == pool.OpenCapacity {
		return p.anyUser(rnd)
	}
	of := slices.Index(projects, strings.SplitN(m.Projects, ",", 2)[0]) + 1
	return p.users[(of*7+skewed(rnd, 5))%len(p.users)]
}

func (p *Pool) anyUser(rnd *rand.Rand) string { return p.users[skewed(rnd, len(p.users))] }

// skewed draws from 0..n-1, small ones far more often.
func skewed(rnd *rand.Rand, n int) int {
	x := rnd.Float64()
	return int(float64(n) * x * x * x)
}

const timestampFormat = "2006-01-02 15:04:05.000000"

// collectorRuns are the times at which the collector wrote rows, ascending.
func (p *Pool) collectorRuns(rnd *rand.Rand) []time.Time {
	o := p.options
	seconds := func(low, high float64) time.Duration {
		return time.Duration((low+(high-low)*rnd.Float64())*1e6) * time.Microsecond
	}
	type outage struct{ from, to time.Time }
	var outages []outage
	length := o.End.Sub(o.Start)
	number := int(o.Outages*length.Hours()/(30*24) + rnd.Float64())
	if o.Outages > 0 && length >= 48*time.Hour {
		number = max(number, 1)
	}
	for range number {
		from := o.Start.Add(time.Duration(rnd.Float64() * float64(length)))
		outages = append(outages, outage{from, from.Add(seconds(3600, 6*3600))})
	}

	var runs []time.Time
	add := func(t time.Time) {
		down := slices.ContainsFunc(outages, func(o outage) bool { return t.After(o.from) && t.Before(o.to) })
		if !down && !t.Before(o.Start) && !t.After(o.End) {
			runs = append(runs, t)
		}
	}
	tick := o.Start.Truncate(o.Cadence)
	for ; tick.Before(o.End); tick = tick.Add(o.Cadence) {
		t := tick.Add(seconds(0.5, 9.5))
		if local := tick.In(p.zone); local.Day() == 1 && local.Hour() == 0 && local.Minute() == 0 {
			t = tick.Add(-seconds(0.5, 3)) // a run at the month's end whose rows are in the next month's file
		}
		if rnd.Float64() < o.LateSnapshots {
			t = t.Add(min(seconds(60, 300), o.Cadence/3))
		}
		missed, doubled, soon := rnd.Float64() < o.MissedSnapshots, rnd.Float64() < o.DoubledSnapshots, rnd.IntN(2) == 0
		if !missed {
			add(t)
		}
		if doubled && soon {
			add(t.Add(seconds(5, min(50, o.Cadence.Seconds()/2))))
		} else if doubled {
			add(t.Add(seconds(65, max(66, min(200, o.Cadence.Seconds()/2)))))
		}
	}
	slices.SortFunc(runs, time.Time.Compare)
	return runs
}

// month is the file that holds a run: its local month, but the next one's when it began in the last seconds of a month.
func (p *Pool) month(run time.Time) string {
	return run.Add(5 * time.Second).In(p.zone).Format("2006-01")
}
