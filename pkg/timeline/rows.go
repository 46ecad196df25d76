package timeline

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// rowTable holds what the distinct rows of a day say: of the 140,000 rows that 900 GPUs make in a day, 15,000 are
// distinct, and each is parsed once.
type rowTable struct {
	names *Names

	parsed   []parsedRow // by the rows' numbers
	distinct pool.Numbered[heldRow]
	gpus     []gpuOfDay
	gpuIndex map[GPU]uint32
	machines pool.Numbered[Symbol]
}

// heldRow is a Row with its job.
type heldRow struct {
	Row
	Job Job // GlobalJobId of a Claimed row
}

// parsedRow is what a row says. gpu is noGPU for a row without a GPU id or Machine.
type parsedRow struct {
	gpu, machine uint32 // within the day
	row          uint32 // index in distinct
	slot, device Symbol
	memory       float64
	hasMemory    bool
	side         pool.Side
	state        pool.State
}

type gpuOfDay struct {
	gpu     GPU
	machine uint32
}

const noGPU = 1<<32 - 1

func newRowTable(names *Names) *rowTable {
	t := &rowTable{names: names, gpuIndex: map[GPU]uint32{}}
	t.index(heldRow{})
	return t
}

// add parses the next distinct row.
func (t *rowTable) add(row snapshots.Row) { t.parsed = append(t.parsed, t.parse(row.Columns())) }

// know numbers the GPUs and machines of a day as the day does. The table must be new.
func (t *rowTable) know(d *Day) {
	for i := range d.machines {
		t.machineIndex(d.machines[i].Name)
	}
	for _, g := range d.gpus {
		t.gpu(g.gpu, g.machine)
	}
}

func (t *rowTable) parse(text [snapshots.Columns]string) parsedRow {
	p := parsedRow{gpu: noGPU, machine: noGPU}
	if machine := text[snapshots.Machine]; !pool.IsBlank(machine) {
		p.machine = t.machineIndex(t.names.Symbol(machine))
		if id := text[snapshots.AssignedGPUs]; !pool.IsBlank(id) {
			p.gpu = t.gpu(t.names.gpu(t.names.Symbol(machine), t.names.Symbol(strings.TrimSpace(id))), p.machine)
		}
	}
	p.side, p.state = pool.SideOf(text[snapshots.Name]), pool.ParseState(text[snapshots.SlotState])
	p.slot = t.names.Symbol(text[snapshots.Name])
	if device := strings.TrimSpace(text[snapshots.DeviceName]); device != "" {
		p.device = t.names.Symbol(device)
	}
	if memory := strings.TrimSpace(text[snapshots.GlobalMemoryMb]); memory != "" {
		p.hasMemory = true
		var err error
		if p.memory, err = strconv.ParseFloat(memory, 64); err != nil || math.IsInf(p.memory, 0) {
			p.memory = math.NaN()
		}
	}
	row := heldRow{Row: Row{State: p.state}}
	if reason := strings.TrimSpace(text[snapshots.PreventJobsReason]); reason != "" {
		row.Prevented, row.Reason = true, t.names.Symbol(reason)
	}
	if projects := pool.Projects(text[snapshots.PrioritizedProjects]); len(projects) > 0 {
		slices.Sort(projects)
		row.Project = t.names.Symbol(strings.Join(projects, ","))
	}
	if p.state == pool.Claimed {
		row.User = t.names.Symbol(strings.TrimSpace(text[snapshots.RemoteOwner]))
		row.Job = t.names.Job(strings.TrimSpace(text[snapshots.GlobalJobID]))
	}
	p.row = t.index(row)
	return p
}

func (t *rowTable) index(row heldRow) uint32 { return uint32(t.distinct.Number(row)) }

func (t *rowTable) machineIndex(name Symbol) uint32 { return uint32(t.machines.Number(name)) }

func (t *rowTable) gpu(g GPU, machine uint32) uint32 {
	i, ok := t.gpuIndex[g]
	if !ok {
		i = uint32(len(t.gpus))
		t.gpuIndex[g], t.gpus = i, append(t.gpus, gpuOfDay{g, machine})
	}
	return i
}
