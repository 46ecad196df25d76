package timeline

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// rowTable numbers the distinct rows of a day, so that each is parsed once: of the 140,000 rows that 900 GPUs make in
// a day, 15,000 are distinct. A row remembers which one followed it in the last snapshot: nine times out of ten it does again.
type rowTable struct {
	names *Names

	ids   map[uint64]uint32 // by hash; rows with equal hashes follow each other in next
	next  []uint32
	bytes []byte
	ends  []uint32 // of each row in bytes
	after []uint32 // the row that followed last time
	last  uint32   // the row before

	parsed   []parsedRow
	distinct []Row
	indices  map[Row]uint32
	gpus     []gpuOfDay
	gpuIndex map[GPU]uint32
	machines []Symbol
	machine  map[Symbol]uint32
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

const (
	noGPU = 1<<32 - 1
	noRow = 1<<32 - 1
)

func newRowTable(names *Names) *rowTable {
	t := &rowTable{names: names, ids: map[uint64]uint32{}, last: noRow, indices: map[Row]uint32{}, gpuIndex: map[GPU]uint32{}, machine: map[Symbol]uint32{}}
	t.index(Row{})
	return t
}

// id returns the number of a row.
func (t *rowTable) id(row snapshots.Row) uint32 {
	if t.last != noRow {
		if guess := t.after[t.last]; guess != noRow && string(t.text(guess)) == string(row) {
			t.last = guess
			return guess
		}
	}
	id := t.find(row)
	if t.last != noRow {
		t.after[t.last] = id
	}
	t.last = id
	return id
}

func (t *rowTable) text(id uint32) []byte {
	begin := uint32(0)
	if id > 0 {
		begin = t.ends[id-1]
	}
	return t.bytes[begin:t.ends[id]]
}

func (t *rowTable) find(row snapshots.Row) uint32 {
	hash := xxhash.Sum64(row)
	first, known := t.ids[hash]
	if known {
		for id := first; id != noRow; id = t.next[id] {
			if string(t.text(id)) == string(row) {
				return id
			}
		}
	}
	id := uint32(len(t.ends))
	t.bytes = append(t.bytes, row...)
	t.ends = append(t.ends, uint32(len(t.bytes)))
	t.after = append(t.after, noRow)
	t.next = append(t.next, noRow)
	if known {
		t.next[id] = first
	}
	t.ids[hash] = id
	t.parsed = append(t.parsed, t.parse(row.Columns()))
	return id
}

func (t *rowTable) parse(text [10]string) parsedRow {
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
	row := Row{State: p.state, Prevented: !pool.IsBlank(text[snapshots.PreventJobsReason])}
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

func (t *rowTable) index(row Row) uint32 {
	i, ok := t.indices[row]
	if !ok {
		i = uint32(len(t.distinct))
		t.indices[row], t.distinct = i, append(t.distinct, row)
	}
	return i
}

func (t *rowTable) machineIndex(name Symbol) uint32 {
	m, ok := t.machine[name]
	if !ok {
		m = uint32(len(t.machines))
		t.machine[name], t.machines = m, append(t.machines, name)
	}
	return m
}

func (t *rowTable) gpu(g GPU, machine uint32) uint32 {
	i, ok := t.gpuIndex[g]
	if !ok {
		i = uint32(len(t.gpus))
		t.gpuIndex[g], t.gpus = i, append(t.gpus, gpuOfDay{g, machine})
	}
	return i
}

// twice counts the blocks of a repeated hour in which most slots stand twice: they may be two runs of the collector with
// the same text, one of each pass, which nothing tells apart.
func (t *rowTable) twice(blocks []block) (n uint32) {
	type slot struct {
		name Symbol
		gpu  uint32
	}
	for _, b := range blocks {
		if !b.repeated || len(b.rows) == 0 {
			continue
		}
		slots := map[slot]bool{}
		for _, id := range b.rows {
			slots[slot{t.parsed[id].slot, t.parsed[id].gpu}] = true
		}
		if 3*len(slots) <= 2*len(b.rows) {
			n++
		}
	}
	return n
}
