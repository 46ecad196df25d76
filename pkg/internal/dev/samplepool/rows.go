package samplepool

import (
	"context"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Row is one row of gpu_state (methodology section 1): one GPU id of one slot. Empty texts are NULL in the file, except
// PrioritizedProjects, which is NULL where ProjectsNull says so.
type Row struct {
	Name                string
	AssignedGPUs        string // the id; the methodology's GPU is (Machine, AssignedGPUs)
	AvailableGPUs       string
	State               string
	DeviceName          string
	MemoryMB            int // MiB; 0: NULL
	PrioritizedProjects string
	ProjectsNull        bool
	AverageUsage        float64 // methodology section 13
	UsageReported       bool    // otherwise AverageUsage is NULL
	Machine             string
	PreventJobsReason   string // this and the next three: not in files older than Options.NewColumns
	Cpus, Memory        int    // of the slot, MiB; of a partitionable one the rest
	SlotType            string
	RemoteOwner         string
	GlobalJobID         string
}

// Snapshot is one run of the collector.
type Snapshot struct {
	Time      time.Time // when it really was, UTC
	Timestamp string    // the column: YYYY-MM-DD HH:MM:SS.ffffff in the collector's local time
	Month     string    // of the file that holds it: 2025-11 for gpu_state_2025-11.db
	Rows      []Row     // in file order; valid until the next snapshot is generated
}

// Snapshots yields the collector's runs in time order, as the month files hold them. Its only error is ctx's, the
// last value then.
func (p *Pool) Snapshots(ctx context.Context) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		c := &collector{pool: p, rnd: p.random("rows"), stale: quota{share: p.options.StaleRows}, usage: p.random("usage"),
			reported: map[*run]bool{}}
		s := p.simulate(observer{claimed: c.claimed})
		for _, t := range p.runs {
			if err := s.advance(ctx, t.UnixMilli()); err != nil {
				yield(Snapshot{}, err)
				return
			}
			shot := Snapshot{Time: t, Timestamp: t.In(p.zone).Format(timestampFormat), Month: p.month(t), Rows: c.rows(s)}
			if !yield(shot, nil) {
				return
			}
		}
	}
}

// collector is what the collector sees of a pool.
type collector struct {
	pool  *Pool
	rnd   *rand.Rand
	stale quota // of owner claims
	left  []staleRow
	all   []Row
	runs  []*run // of each row's slot, nil: none

	usage    *rand.Rand
	reported map[*run]bool // runs that a snapshot has shown
}

// staleRow is a backfill row that one snapshot still shows next to the primary claim of its GPU.
type staleRow struct {
	claim *run
	gpu   *gpu
	was   *run // nil: it was free
}

func (c *collector) claimed(g *gpu, evicted *run, stoodInBackfill bool) {
	if !stoodInBackfill || g.primary.start < c.pool.options.Start.UnixMilli() {
		return
	}
	if c.stale.draw(c.rnd) {
		c.left = append(c.left, staleRow{g.primary, g, evicted})
		c.stale.hits++
	}
	c.stale.cast++
}

// rows are all rows of a snapshot now.
func (c *collector) rows(s *simulation) []Row {
	c.all, c.runs = c.all[:0], c.runs[:0]
	c.left = slices.DeleteFunc(c.left, func(l staleRow) bool {
		over := l.gpu.primary != l.claim
		if over {
			c.stale.hits--
		}
		return over
	})
	for _, h := range s.hosts {
		missing := c.rnd.Float64() < c.pool.options.MissingMachines
		if h.down > 0 || missing {
			continue
		}
		first := len(c.all)
		c.machine(h, s.now)
		c.reportUsage(first, s.now)
		for _, l := range c.left {
			if l.gpu.host == h {
				c.slot(h, h.backfillSlot(l.was), []*gpu{l.gpu}, []*gpu{l.gpu}, l.was, s.now)
				c.reportUsage(len(c.all)-1, s.now)
			}
		}
	}
	c.left = c.left[:0]
	c.forgetEnded()
	c.noise()
	return c.all
}

// noise spoils some rows.
func (c *collector) noise() {
	share := c.pool.options.RowNoise
	if share == 0 {
		return
	}
	next := func() int { return 1 + int(math.Log(1-c.rnd.Float64())/math.Log(1-2.2*min(share, 0.4))) }
	for i, n := next()-1, len(c.all); i < n; i += next() {
		row := &c.all[i]
		switch x := c.rnd.Float64() * 2.2; {
		case x < 1:
			c.all = append(c.all, *row)
		case x < 2 && row.State == "Unclaimed":
			row.State = "Matched"
		case x < 2 && row.State == "Claimed":
			row.State = "Preempting"
		case x > 2.1:
			row.RemoteOwner = ""
		case x > 2:
			without := *row
			without.AssignedGPUs = ""
			c.all = append(c.all, without)
		}
	}
}

// machine appends a machine's rows: the partitionable primary slot with all its GPUs while one is free, the jobs'
// slots, the partitionable backfill slot with the unclaimed GPUs, the backfill jobs' slots.
func (c *collector) machine(h *host, now int64) {
	unclaimed := h.which(func(g *gpu) bool { return g.primary == nil })
	if len(unclaimed) > 0 {
		c.slot(h, h.primarySlot+"@"+h.Name, h.gpus, unclaimed, nil, now)
	}
	for _, r := range h.primary {
		c.slot(h, r.slotName(), r.gpus, r.gpus, r, now)
	}
	if !h.Backfill {
		return
	}
	if free := h.which(func(g *gpu) bool {
		return g.primary == nil &&
			(g.backfill == nil || g.backfill.reason != "")
	}); len(free) > 0 {
		slices.Reverse(free)
		c.slot(h, h.backfillSlot(nil), free, free, nil, now)
	}
	for _, r := range h.backfill {
		if r.reason == "" { // otherwise it is leaving, and its slot is already gone
			c.slot(h, r.slotName(), r.gpus, r.gpus, r, now)
		}
	}
}

func (h *host) which(is func(*gpu) bool) (those []*gpu) {
	for _, g := range h.gpus {
		if is(g) {
			those = append(those, g)
		}
	}
	return those
}

func (h *host) backfillSlot(r *run) string {
	if r != nil {
		return r.slotName()
	}
	return "backfill2@" + h.Name
}

// slotName is the run's dynamic slot: slot1_2@host, backfill2_1@host.
func (r *run) slotName() string {
	parent := r.host.primarySlot
	if r.side() == 1 {
		parent = "backfill2"
	}
	return parent + "_" + strconv.Itoa(r.slot) + "@" + r.host.Name
}

// slot appends a slot's rows.
func (c *collector) slot(h *host, name string, assigned, available []*gpu, r *run, now int64) {
	row := Row{
		Name: name, AvailableGPUs: strings.Join(ids(available), ","), State: "Unclaimed", DeviceName: h.Device,
		MemoryMB:            h.MemoryMB,
		PrioritizedProjects: h.Projects, ProjectsNull: h.nullProjects, Machine: h.Machine.Name,
	}
	row.Cpus, row.Memory, row.SlotType = h.room(name, assigned, r)
	switch {
	case r != nil:
		row.State, row.RemoteOwner, row.GlobalJobID = "Claimed", r.job.user, r.job.id
		if r.hidden {
			row.GlobalJobID = ""
		}
		if h.nullDevice {
			row.DeviceName = ""
		}
	case h.drained > 0:
		row.State = "Drained"
	case h.prevented > 0 && strings.HasPrefix(name, "backfill"):
		row.State = "Owner"
	}
	if h.prevented > 0 {
		row.PreventJobsReason = "GPU ECC errors"
	}
	if h.nullMemory {
		row.MemoryMB = 0
	}
	if !h.changed.IsZero() && now >= h.changed.UnixMilli() {
		row.PrioritizedProjects = h.newProjects
	}
	for _, g := range assigned {
		row.AssignedGPUs = g.id
		c.all, c.runs = append(c.all, row), append(c.runs, r)
	}
}

// CPUs and memory (MiB) of each GPU that a job holds, and of the machine; and the CPUs that others leave when these are
// used up.
const (
	cpusOfJob, memoryOfJob         = 4, 32768
	cpusOfMachine, memoryOfMachine = 8, 65536
	cpusLeft                       = 2
)

// room returns the resources of a slot: of the partitionable primary one the rest.
func (h *host) room(name string, assigned []*gpu, r *run) (cpus, memory int, slotType string) {
	n := len(assigned)
	switch {
	case r != nil:
		return n * cpusOfJob, n * memoryOfJob, "Dynamic"
	case strings.HasPrefix(name, "backfill"):
		return n * cpusOfMachine, n * memoryOfMachine, "Partitionable"
	}
	held := n - len(h.which(func(g *gpu) bool { return g.primary == nil }))
	cpus, memory = n*cpusOfMachine-held*cpusOfJob, n*memoryOfMachine-held*memoryOfJob
	if h.crowded > 0 {
		cpus = cpusLeft
	}
	return cpus, memory, "Partitionable"
}

func ids(gpus []*gpu) []string {
	names := make([]string, len(gpus))
	for i, g := range gpus {
		names[i] = g.id
	}
	return names
}
