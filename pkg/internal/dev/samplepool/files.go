package samplepool

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	_ "modernc.org/sqlite" // driver

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// Write writes everything (WriteSnapshots, WriteQueues, WriteAds, WriteTruth) into dir.
func (p *Pool) Write(ctx context.Context, dir string) error {
	for _, write := range []func(context.Context, string) error{p.WriteSnapshots, p.WriteQueues, p.WriteAds,
		p.WriteTruth} {
		if err := write(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// WriteSnapshots writes gpu_state_YYYY-MM.db (or .parquet), chtc_owned and masked_hosts.yaml into dir. A file that
// exists is an error.
func (p *Pool) WriteSnapshots(ctx context.Context, dir string) (err error) {
	if err := p.writeLists(dir); err != nil {
		return err
	}
	var file *monthFile
	defer func() {
		if file != nil {
			err = errors.Join(err, file.close())
		}
	}()
	month := ""
	for shot, err := range p.Snapshots(ctx) {
		if err != nil {
			return err
		}
		if shot.Month != month {
			if file != nil {
				if err := file.close(); err != nil {
					return err
				}
			}
			month = shot.Month
			if file, err = p.newMonthFile(ctx, dir, month); err != nil {
				return err
			}
		}
		if err := file.add(ctx, shot); err != nil {
			return err
		}
	}
	return nil
}

// monthFile is a month of snapshots that is being written.
type monthFile struct {
	columns []column
	insert  func(ctx context.Context, values ...any) error
	close   func() error
}

// newMonthFile makes a month's file, with the columns that the collector had then.
func (p *Pool) newMonthFile(ctx context.Context, dir, month string) (*monthFile, error) {
	newer := month >= p.options.NewColumns.In(p.zone).Format("2006-01")
	known := slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.newer && !newer })
	if p.options.Format == "parquet" {
		return newParquetFile(filepath.Join(dir, snapshots.MonthFile(month, "parquet")), known)
	}
	var definitions []string
	for _, c := range known {
		definitions = append(definitions, c.definition)
	}
	t, err := newTable(ctx, dir, snapshots.MonthFile(month, "db"),
		"CREATE TABLE gpu_state (\n\t"+strings.Join(definitions, ", \n\t")+"\n)")
	if err != nil {
		return nil, err
	}
	return &monthFile{known, t.add, func() error { return t.close() }}, nil
}

func (f *monthFile) add(ctx context.Context, shot Snapshot) error {
	values := make([]any, len(f.columns))
	for i := range shot.Rows {
		for n, c := range f.columns {
			values[n] = c.value(&shot.Rows[i], shot.Timestamp)
		}
		if err := f.insert(ctx, values...); err != nil {
			return fmt.Errorf("writing a sample pool's snapshot of %s: %w", shot.Timestamp, err)
		}
	}
	return ctx.Err()
}

// writeLists writes the files of CHTC's machines and of excluded hosts.
func (p *Pool) writeLists(dir string) error {
	owned, excluded := "# machines that CHTC owns\n", ""
	for _, m := range p.machines {
		if m.Ownership == pool.CHTCOwned {
			owned += m.Name + "\n"
		}
		if m.Excluded {
			excluded += "\n  " + strings.TrimSuffix(m.Name, domain) + ": Prioritized by a hard-coded start expression"
		}
	}
	return cmp.Or(writeFile(dir, "chtc_owned", owned+"retiredgpu4000"+domain+"\n"),
		writeFile(dir, "masked_hosts.yaml", "excluded_hosts:"+cmp.Or(excluded, " {}")+"\n"))
}

// column is a column of gpu_state.
type column struct {
	definition string
	newer      bool // older collectors did not have it
	value      func(r *Row, timestamp string) any
}

// name is the column's name in the table.
func (c column) name() string { return strings.Trim(strings.Fields(c.definition)[0], `"`) }

// orNull is a value, NULL where there is none.
func orNull[T any](value T, there bool) any {
	if !there {
		return nil
	}
	return value
}

func text(s string) any { return orNull(s, s != "") }

// columns are all columns, in the order of the table.
var columns = []column{
	{`"Name" TEXT`, false, func(r *Row, _ string) any { return text(r.Name) }},
	{`"AssignedGPUs" TEXT`, false, func(r *Row, _ string) any { return text(r.AssignedGPUs) }},
	{`"AvailableGPUs" TEXT`, false, func(r *Row, _ string) any { return text(r.AvailableGPUs) }},
	{`"State" TEXT`, false, func(r *Row, _ string) any { return text(r.State) }},
	{`"GPUs_DeviceName" TEXT`, false, func(r *Row, _ string) any { return text(r.DeviceName) }},
	{`"GPUs_GlobalMemoryMb" BIGINT`, false, func(r *Row, _ string) any {
		return orNull(int64(r.MemoryMB), r.MemoryMB != 0)
	}},
	{`"PrioritizedProjects" TEXT`, false, func(r *Row, _ string) any {
		return orNull(r.PrioritizedProjects, !r.ProjectsNull)
	}},
	{`"GPUsAverageUsage" FLOAT`, false, func(r *Row, _ string) any { return orNull(r.AverageUsage, r.UsageReported) }},
	{`"Machine" TEXT`, false, func(r *Row, _ string) any { return text(r.Machine) }},
	{`"PreventJobsReason" TEXT`, true, func(r *Row, _ string) any { return text(r.PreventJobsReason) }},
	{`"RemoteOwner" TEXT`, false, func(r *Row, _ string) any { return text(r.RemoteOwner) }},
	{`"GlobalJobId" TEXT`, false, func(r *Row, _ string) any { return text(r.GlobalJobID) }},
	{`timestamp DATETIME`, false, func(_ *Row, timestamp string) any { return timestamp }},
	{`"Disk" INTEGER`, true, func(*Row, string) any { return int64(1000000) }},
	{`"Cpus" INTEGER`, true, func(r *Row, _ string) any { return int64(r.Cpus) }},
	{`"Memory" INTEGER`, true, func(r *Row, _ string) any { return int64(r.Memory) }},
	{`"SlotType" TEXT`, true, func(r *Row, _ string) any { return text(r.SlotType) }},
}

// table is the table of a SQLite file that is being made.
type table struct {
	name   string // of the file
	db     *sql.DB
	tx     *sql.Tx
	insert *sql.Stmt
}

// newTable makes a file with a table. A file that exists is an error.
func newTable(ctx context.Context, dir, name, create string) (*table, error) {
	path := filepath.Join(dir, name)
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("writing a sample pool: %s exists already", name)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(OFF)&_pragma=synchronous(OFF)"+
		"&_pragma=locking_mode(EXCLUSIVE)&_pragma=cache_size(-16000)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	t := &table{name: name, db: db}
	if _, err = db.ExecContext(ctx, create); err == nil {
		if t.tx, err = db.Begin(); err == nil {
			values := strings.Repeat(",?", strings.Count(create, ","))
			t.insert, err = t.tx.PrepareContext(ctx, "INSERT INTO "+strings.Fields(create)[2]+" VALUES (?"+values+")")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("writing a sample pool's %s: %w", name, errors.Join(err, db.Close()))
	}
	return t, nil
}

func (t *table) add(ctx context.Context, values ...any) error {
	_, err := t.insert.ExecContext(ctx, values...)
	return err
}

// close commits the rows, after further statements.
func (t *table) close(statements ...string) (err error) {
	for _, s := range statements {
		if _, failed := t.tx.Exec(s); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	if err = errors.Join(err, t.tx.Commit(), t.db.Close()); err != nil {
		return fmt.Errorf("writing a sample pool's %s: %w", t.name, err)
	}
	return nil
}

// newParquetFile makes a month's file, with columns in the reference collector's order.
func newParquetFile(path string, known []column) (*monthFile, error) {
	// #nosec G302 -- Grafana's user reads it
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("writing a sample pool: %w", err)
	}
	f := &monthFile{}
	var fields []parquet.Field
	for _, field := range parquet.Schema {
		if at := slices.IndexFunc(known, func(c column) bool { return c.name() == field.Name }); at >= 0 {
			f.columns, fields = append(f.columns, known[at]), append(fields, field)
		}
	}
	writer := parquet.NewWriter(file, fields)
	f.insert = func(_ context.Context, values ...any) error { return writer.Write(values) }
	f.close = func() error { return errors.Join(writer.Close(), file.Close()) }
	return f, nil
}

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
