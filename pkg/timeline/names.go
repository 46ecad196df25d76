package timeline

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Symbol represents a text, such as a machine's or a user's. Equal texts of a timeline have equal symbols; 0 is "".
type Symbol uint32

// GPU is a GPU of the pool, a pair of machine and id (methodology section 2), numbered in the order of first sight.
type GPU uint32

// Job is a GlobalJobId, `schedd#cluster.proc#qdate`. The zero Job is none.
// A text of another form is kept whole in Schedd.
type Job struct {
	Schedd        Symbol
	Cluster, Proc uint32
	QDate         uint32 // seconds since 1970 UTC
}

// raw marks a Job whose whole text is its Schedd. No real job has this cluster.
const raw = 1<<32 - 1

// IsNone reports whether j is the zero Job.
func (j Job) IsNone() bool { return j == Job{} }

// Names holds the texts of a timeline, as [pool.Cut] keeps them. It only grows, and is safe for concurrent use.
type Names struct {
	mu    sync.RWMutex
	texts pool.Numbered[string] // by symbol
	gpus  pool.Numbered[gpuKey]
	bytes int64 // memory of the texts
}

// textBytes is what a text takes in addition to its own bytes: two headers, a symbol, and a place in the map.
const textBytes = 60

type gpuKey struct{ machine, id Symbol }

// NewNames returns names without any text but the empty one.
func NewNames() *Names {
	n := &Names{}
	n.texts.Number("")
	return n
}

// Text returns the text of a symbol.
func (n *Names) Text(s Symbol) string { return n.Texts()[s] }

// Bytes is the memory that the texts take.
func (n *Names) Bytes() int64 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.bytes
}

// Texts returns all texts so far, by symbol. The slice must not be changed.
func (n *Names) Texts() []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.Clip(n.texts.All)
}

// GPUs returns the number of GPUs so far: every GPU of a view is less than it.
func (n *Names) GPUs() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.gpus.All)
}

// GPU returns a GPU's machine and id.
func (n *Names) GPU(g GPU) (machine, id Symbol) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.gpus.All[g].machine, n.gpus.All[g].id
}

// JobText returns the GlobalJobId, "" for none.
func (n *Names) JobText(j Job) string {
	if j.IsNone() {
		return ""
	}
	schedd := n.Text(j.Schedd)
	if j.Cluster == raw {
		return schedd
	}
	b := append(make([]byte, 0, 64), schedd...) // there are many: not by fmt
	b = strconv.AppendUint(append(b, '#'), uint64(j.Cluster), 10)
	b = strconv.AppendUint(append(b, '.'), uint64(j.Proc), 10)
	return string(strconv.AppendUint(append(b, '#'), uint64(j.QDate), 10))
}

// Symbol returns the symbol of a text, a new one when it has none.
func (n *Names) Symbol(text string) Symbol {
	text = pool.Cut(text)
	n.mu.Lock()
	defer n.mu.Unlock()
	s, known := n.texts.Find(text)
	if !known {
		text = strings.Clone(text)
		s = n.texts.Number(text)
		n.bytes += int64(len(text) + textBytes)
	}
	return Symbol(s)
}

// gpu returns the GPU with an id on a machine, a new one when it is not known.
func (n *Names) gpu(machine, id Symbol) GPU {
	n.mu.Lock()
	defer n.mu.Unlock()
	return GPU(n.gpus.Number(gpuKey{machine, id}))
}

// Job parses a GlobalJobId from the right; the schedd's name may hold a #.
func (n *Names) Job(text string) Job {
	if text == "" {
		return Job{}
	}
	text = pool.Cut(text)
	if parts := strings.Split(text, "#"); len(parts) > 2 {
		schedd := strings.Join(parts[:len(parts)-2], "#")
		cluster, proc, _ := strings.Cut(parts[len(parts)-2], ".")
		c, okC := number(cluster)
		p, okP := number(proc)
		q, okQ := number(parts[len(parts)-1])
		if okC && okP && okQ && c != raw && schedd != "" {
			return Job{n.Symbol(schedd), c, p, q}
		}
	}
	return Job{n.Symbol(text), raw, raw, raw}
}

// number parses digits that come back the same when printed.
func number(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil && (len(text) == 1 || text[0] != '0') && text[0] != '+'
}

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

// add parses the next distinct row.
func (t *rowTable) add(row snapshots.Row) {
	text, odd := row.Values()
	var rows []parsedRow
	for _, id := range text.GPUs() {
		rows = append(rows, t.parse(&text, id))
	}
	t.rows, t.odd = append(t.rows, rows), append(t.odd, odd)
}

func (t *rowTable) parse(text *snapshots.Texts, id string) parsedRow {
	p := parsedRow{gpu: noGPU, machine: noGPU, slot: noRoom, claim: noClaim}
	if machine := text[snapshots.Machine]; !pool.IsBlank(machine) {
		name := t.names.Symbol(machine)
		p.machine = uint32(t.machines.Number(name))
		if id != "" {
			p.gpu = t.gpu(t.names.gpu(name, t.names.Symbol(id)), p.machine)
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
	p.row = uint32(t.distinct.Number(row))
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

func (t *rowTable) gpu(g GPU, machine uint32) uint32 {
	i := uint32(t.gpus.Number(g))
	if int(i) == len(t.machineOf) {
		t.machineOf = append(t.machineOf, machine)
	}
	return i
}
