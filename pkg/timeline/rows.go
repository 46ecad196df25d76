package timeline

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// rowTable parses each distinct row of a day once: of 140,000 rows that 900 GPUs make in a day, 15,000 are distinct.
type rowTable struct {
	names *Names

	rows      [][]parsedRow     // by row, one for each of its GPUs
	odd       [][]snapshots.Odd // by row
	distinct  pool.Numbered[heldRow]
	gpus      pool.Numbered[GPU]
	machineOf []uint32 // by GPU
	machines  pool.Numbered[Symbol]
	slots     pool.Numbered[string] // names of slots with room
	claims    pool.Numbered[claimKey]
}

// heldRow is a Row with its job.
type heldRow struct {
	Row
	Job Job // GlobalJobId of a Claimed row
}

// parsedRow is the content of a row. gpu is noGPU for a row without a GPU id or Machine.
type parsedRow struct {
	gpu, machine uint32 // within the day
	row          uint32 // index in distinct
	device       Symbol
	memory       float64
	hasMemory    bool
	side         pool.Side
	state        pool.State
	slot         int32 // its number in slots if it has the slot's room, otherwise noRoom
	room         Room
	flagged      Symbol // the slot, if it is backfill by BackfillSlot and not by its name; otherwise 0
	claim        int32  // its number in claims if it is Claimed, otherwise noClaim
}

const (
	noGPU   = 1<<32 - 1
	noRoom  = -1
	noClaim = -1
)

func newRowTable(names *Names) *rowTable {
	t := &rowTable{names: names}
	t.index(heldRow{})
	return t
}

// add parses the next distinct row.
func (t *rowTable) add(row snapshots.Row) {
	text, odd := row.Values()
	var rows []parsedRow
	for _, id := range text.GPUs() {
		rows = append(rows, t.parse(&text, id))
	}
	t.rows, t.odd = append(t.rows, rows), append(t.odd, odd)
}

// know numbers the GPUs and machines of a day as the day does. The table must be new.
func (t *rowTable) know(d *Day) {
	for i := range d.machines {
		t.machineIndex(d.machines[i].Name)
	}
	for _, g := range d.gpus {
		t.gpu(g.GPU, g.Machine)
	}
}

func (t *rowTable) parse(text *snapshots.Texts, id string) parsedRow {
	p := parsedRow{gpu: noGPU, machine: noGPU, slot: noRoom, claim: noClaim}
	if machine := text[snapshots.Machine]; !pool.IsBlank(machine) {
		p.machine = t.machineIndex(t.names.Symbol(machine))
		if id != "" {
			p.gpu = t.gpu(t.names.gpuOf(machine, id), p.machine)
		}
	}
	// Read what the row says of the slot and the GPU.
	p.side, p.state = text.Side(), text.State()
	if p.side == pool.Backfill && pool.SideOf(text[snapshots.Name]) != pool.Backfill {
		slot, _, _ := strings.Cut(text[snapshots.Name], "@")
		p.flagged = t.names.Symbol(slot)
	}
	p.device = t.names.Symbol(strings.TrimSpace(text[snapshots.DeviceName]))
	if memory := strings.TrimSpace(text[snapshots.GlobalMemoryMb]); memory != "" {
		p.hasMemory = true
		var err error
		if p.memory, err = strconv.ParseFloat(memory, 64); err != nil || math.IsInf(p.memory, 0) {
			p.memory = math.NaN()
		}
	}
	if p.side == pool.Primary && p.machine != noGPU && strings.TrimSpace(text[snapshots.SlotType]) == "Partitionable" {
		p.slot = t.slots.Number(strings.Clone(text[snapshots.Name]))
		p.room = Room{amount(text[snapshots.Cpus]), amount(text[snapshots.Memory])}
	}
	// Number its state, with the claim, among those of the day.
	row := heldRow{Row: Row{State: p.state}}
	prevented := strings.TrimSpace(text[snapshots.PreventJobsReason])
	row.Prevented = prevented != ""
	row.Reason = t.names.Symbol(cmp.Or(prevented, strings.TrimSpace(text[snapshots.SlotBrokenReason])))
	row.Project = t.names.Symbol(pool.ProjectList(text[snapshots.PrioritizedProjects]))
	if p.state == pool.Claimed {
		row.User = t.names.Symbol(strings.TrimSpace(text[snapshots.RemoteOwner]))
		row.Job = t.names.Job(strings.TrimSpace(text[snapshots.GlobalJobID]))
		if p.gpu != noGPU {
			p.claim = t.claims.Number(claimOf(&p, &row))
		}
	}
	p.row = t.index(row)
	return p
}

// amount reads a number, NaN if it is none.
func amount(text string) float32 {
	value, err := strconv.ParseFloat(strings.TrimSpace(text), 32)
	if err != nil {
		return float32(math.NaN())
	}
	return float32(value)
}

func (t *rowTable) index(row heldRow) uint32 { return uint32(t.distinct.Number(row)) }

func (t *rowTable) machineIndex(name Symbol) uint32 { return uint32(t.machines.Number(name)) }

func (t *rowTable) gpu(g GPU, machine uint32) uint32 {
	i := uint32(t.gpus.Number(g))
	if int(i) == len(t.machineOf) {
		t.machineOf = append(t.machineOf, machine)
	}
	return i
}
