package timeline

import (
	"cmp"
	"math"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// builder forms the spans of a day from its snapshots: from all of them, or from an earlier segment and those from its
// newest one onward. It implements snapshots.Visitor.
type builder struct {
	earlier *Day   // nil if there is none
	usage   *Usage // the earlier segment's; nil if it is not known
	table   *rowTable
	day     *Day

	gpus     []gpuBuild
	touched  []uint32
	roomy    []uint32 // machines with a row in the snapshot that reports a slot's room
	machines []machineBuild
	statuses map[statusKey]uint32
	odd      map[oddKey]uint32 // how many rows of the snapshot that is read

	measures bool     // the usage is derived, too
	reports  []report // by claim
	active   []int32  // claims of the snapshot that is read
	further  []FurtherUsage
}

// statusKey tells statuses apart by their rows in the table.
type statusKey struct {
	statusRows
	further string // the further claims, written out
}

type gpuBuild struct {
	seen   int       // the snapshot whose rows side and extras hold; -1 = none
	side   [2]uint32 // index in the table's distinct rows; 0 = none
	extras []Claim
	id     string
	device Symbol
	memory float64

	first    int       // the first snapshot with a row
	statuses []uint32  // by snapshot, from the first one to the last one with a row
	usage    [2]series // by side: what its claims used
}

type machineBuild struct {
	bits   Machine
	seen   int // the last snapshot with a row; -1 = none
	silent []interval
	slots  []slotRoom // the newest snapshot's, while it is read
	rooms  []roomSpan
	// backfill are slots that are backfill by BackfillSlot and not by their name.
	backfill []Symbol
}

// slotRoom is the room that the last row of a slot in a snapshot reports.
type slotRoom struct {
	slot int32
	Room
}

// newBuilder returns a builder of a day without the snapshots that are left out.
func newBuilder(date int32, incomplete []Incomplete, names *Names, earlier *Day, usage *Usage) *builder {
	table := &rowTable{names: names}
	table.distinct.Number(heldRow{}) // 0: no row
	return &builder{earlier: earlier, usage: usage, table: table, statuses: map[statusKey]uint32{},
		measures: true, day: &Day{Date: date, incomplete: incomplete, statuses: make([]statusRows, Absent+1)}}
}

// grow makes room for the GPUs, machines and claims that are new in the table.
func (b *builder) grow() {
	for _, gpu := range b.table.gpus.All[len(b.gpus):] {
		_, id := b.table.names.GPU(gpu)
		b.gpus = append(b.gpus, gpuBuild{seen: -1, memory: math.NaN(), id: b.table.names.Text(id)})
	}
	for len(b.machines) < len(b.table.machines.All) {
		b.machines = append(b.machines, machineBuild{seen: -1})
	}
	for len(b.reports) < len(b.table.claims.All) {
		b.reports = append(b.reports, report{snapshot: -1})
	}
}

// Distinct implements snapshots.Visitor.
func (b *builder) Distinct(row snapshots.Row) { b.table.add(row) }

// Snapshot implements snapshots.Visitor.
func (b *builder) Snapshot(s snapshots.Snapshot) error {
	if slices.ContainsFunc(b.day.incomplete, func(i Incomplete) bool { return i.Time == s.Time }) {
		return nil
	}
	b.grow()
	number := len(b.day.Times)
	b.day.Times, b.day.Ends = append(b.day.Times, s.Time), append(b.day.Ends, s.End)
	b.day.RowsWithoutGPU = append(b.day.RowsWithoutGPU, 0)
	b.touched, b.roomy = b.touched[:0], b.roomy[:0]
	for _, id := range s.Rows {
		for i := range b.table.rows[id] {
			b.row(number, &b.table.rows[id][i])
		}
		for i := range b.table.odd[id] {
			b.note(&b.table.odd[id][i])
		}
	}
	b.countOdd(number)
	for _, g := range b.touched {
		b.gpus[g].set(number, b.status(&b.gpus[g]))
	}
	for _, m := range b.roomy {
		b.machines[m].extendRoom(uint16(number))
	}
	if b.measures {
		b.measure(number, s)
	}
	return nil
}

// Begin implements snapshots.Visitor. If the reading is resumed, it continues the earlier segment and usage without
// their newest snapshot, of which only the names stay.
func (b *builder) Begin(resumed bool) {
	if !resumed {
		return
	}
	d := b.earlier
	// Number the machines and GPUs as the day does.
	for i := range d.Machines {
		b.table.machines.Number(d.Machines[i].Name)
	}
	for _, g := range d.gpus {
		b.table.gpu(g.GPU, g.Machine)
	}
	b.grow()
	keep := len(d.Times) - 1
	// Keep all snapshots but the last one, which may have got more rows.
	b.day.Times, b.day.Ends = slices.Clone(d.Times[:keep]), slices.Clone(d.Ends[:keep])
	b.day.RowsWithoutGPU = slices.Clone(d.RowsWithoutGPU[:keep])
	b.day.statuses, b.day.extras = slices.Clone(d.statuses), slices.Clone(d.extras)
	b.day.examples = slices.Clone(d.examples)
	for _, o := range d.odd {
		if int(o.Snapshot) < keep {
			b.day.odd = append(b.day.odd, o)
		}
	}
	// Number the rows of the statuses again.
	jobs := d.Jobs()
	for s := Absent + 1; s < uint32(len(d.statuses)); s++ {
		rows := &b.day.statuses[s]
		for side, row := range rows {
			rows[side] = uint32(b.table.distinct.Number(heldRow{d.Rows[row], jobs[s][side]}))
		}
		b.statuses[keyOf(*rows, d.FurtherClaims(s))] = s
	}
	// Take over what is known of machines and GPUs in those snapshots.
	for i := range d.Machines {
		m := &b.machines[i]
		m.bits, m.seen = d.Machines[i], keep-1
		for _, s := range d.silencesOf(i) {
			if int(s.Last) >= keep-1 { // it may continue
				m.seen = min(m.seen, int(s.First)-1)
				break
			}
			m.silent = append(m.silent, s)
		}
		for _, r := range d.roomsOf(i) {
			if r.Last = min(r.Last, uint16(max(keep-1, 0))); int(r.First) < keep {
				m.rooms = append(m.rooms, r)
			}
		}
		m.backfill = slices.Clone(d.slots[d.slotOffsets[i]:d.slotOffsets[i+1]])
	}
	for i := range d.gpus {
		g, model := &b.gpus[i], d.Model(i)
		g.device, g.memory = model.Device, model.Memory
		for s := range d.SpansIn(i, 0, keep) {
			for n := s.First; n < s.End && s.Status > Absent; n++ {
				g.set(n, s.Status)
			}
		}
	}
	b.resumeUsage(keep)
}

func (b *builder) row(number int, p *parsedRow) {
	if p.machine != noGPU {
		b.appear(number, p)
	}
	if p.gpu == noGPU {
		b.day.RowsWithoutGPU[number]++
		return
	}
	g := &b.gpus[p.gpu]
	if g.seen != number {
		g.seen, g.side, g.extras = number, [2]uint32{}, nil
		b.touched = append(b.touched, p.gpu)
	}
	if p.device != 0 {
		g.device = p.device
	}
	if p.hasMemory {
		g.memory = p.memory
	}
	current := g.side[p.side]
	if current == p.row {
		return
	}
	held := &b.table.distinct.All[current]
	if p.state >= held.State { // among equal states, the last row counts
		g.side[p.side] = p.row
		if held.State == pool.Claimed {
			g.extras = append(g.extras, Claim{p.side, held.User, held.Job})
		}
	}
}

// appear records that the machine has a row in the snapshot, and what the row says about its ownership.
func (b *builder) appear(number int, p *parsedRow) {
	m := &b.machines[p.machine]
	if m.seen != number {
		if m.seen < number-1 {
			m.silent = append(m.silent, interval{uint16(m.seen + 1), uint16(number - 1)})
		}
		m.seen = number
	}
	if p.slot != noRoom {
		if len(m.slots) == 0 {
			b.roomy = append(b.roomy, p.machine)
		}
		i := slices.IndexFunc(m.slots, func(s slotRoom) bool { return s.slot == p.slot })
		if i < 0 {
			i, m.slots = len(m.slots), append(m.slots, slotRoom{slot: p.slot})
		}
		m.slots[i].Room = p.room
	}
	if p.flagged != 0 && !slices.Contains(m.backfill, p.flagged) {
		m.backfill = append(m.backfill, p.flagged)
	}
	if p.gpu == noGPU {
		return
	}
	hasProject := b.table.distinct.All[p.row].Project != 0
	m.bits.AnyProject = m.bits.AnyProject || hasProject
	if p.side == pool.Primary {
		m.bits.HasPrimary = true
		m.bits.PrimaryProject = m.bits.PrimaryProject || hasProject
	}
}

// extendRoom adds up the room of the machine's slots in a snapshot.
func (m *machineBuild) extendRoom(number uint16) {
	var sum Room
	for _, s := range m.slots {
		sum.Cpus, sum.Memory = sum.Cpus+s.Cpus, sum.Memory+s.Memory // unknown if one is: NaN
	}
	m.slots = m.slots[:0]
	same := func(a, b float32) bool { return a == b || a != a && b != b }
	if n := len(m.rooms) - 1; n >= 0 && m.rooms[n].Last+1 == number && same(m.rooms[n].Cpus, sum.Cpus) &&
		same(m.rooms[n].Memory, sum.Memory) {
		m.rooms[n].Last = number
		return
	}
	m.rooms = append(m.rooms, roomSpan{number, number, sum})
}

// set sets the GPU's status in a snapshot, after those in earlier ones. It is Absent in those between.
func (g *gpuBuild) set(number int, status uint32) {
	if len(g.statuses) == 0 {
		g.first = number
	}
	for g.first+len(g.statuses) < number {
		g.statuses = append(g.statuses, Absent)
	}
	g.statuses = append(g.statuses, status)
}

// status returns the number of the GPU's status, which its rows determine.
func (b *builder) status(g *gpuBuild) uint32 {
	rows, claims := statusRows(g.side), b.furtherClaims(g)
	key := keyOf(rows, claims)
	s, known := b.statuses[key]
	if !known {
		s = b.day.addStatus(rows, claims)
		b.statuses[key] = s
	}
	return s
}

func keyOf(rows statusRows, claims []Claim) statusKey {
	key := statusKey{statusRows: rows}
	if len(claims) > 0 {
		key.further = pool.Key(claims)
	}
	return key
}

// addStatus appends a status with its further claims, and returns its number.
func (d *Day) addStatus(rows statusRows, claims []Claim) uint32 {
	s := uint32(len(d.statuses))
	d.statuses = append(d.statuses, rows)
	for _, c := range claims {
		d.extras = append(d.extras, extraClaim{s, c})
	}
	return s
}

// furtherClaims returns the claims that differ in user or job from the rows that give the states, each once.
func (b *builder) furtherClaims(g *gpuBuild) []Claim {
	var claims []Claim
	for _, c := range g.extras {
		row := &b.table.distinct.All[g.side[c.Side]]
		if (c.User != row.User || c.Job != row.Job) && !slices.Contains(claims, c) {
			claims = append(claims, c)
		}
	}
	return claims
}

// finish sorts the GPUs and concatenates their spans, including the snapshots in which a GPU has no row. The usage is
// nil if that of the earlier segment was needed and is not known.
func (b *builder) finish(oddities snapshots.Oddities) (*Day, *Usage) {
	b.grow()
	d := b.day
	d.Oddities = oddities
	machines := b.finishMachines()
	// Order the GPUs with a row.
	order := make([]uint32, 0, len(b.gpus))
	for i := range b.gpus {
		if len(b.gpus[i].statuses) > 0 {
			order = append(order, uint32(i))
		}
	}
	// By name: symbols depend on the order of reading, and sums on the order of adding.
	slices.SortFunc(order, func(i, j uint32) int {
		m, n := machines[b.table.machineOf[i]], machines[b.table.machineOf[j]]
		return cmp.Or(cmp.Compare(m, n), cmp.Compare(b.gpus[i].id, b.gpus[j].id))
	})
	// Number their models, and append their spans.
	type modelKey struct {
		device Symbol
		memory uint64 // its bits: NaN cannot be a key
	}
	var models pool.Numbered[modelKey]
	statuses := make([]uint32, len(d.Times))
	for _, i := range order {
		g := &b.gpus[i]
		index := uint32(models.Number(modelKey{g.device, math.Float64bits(g.memory)}))
		if int(index) == len(d.Models) {
			d.Models = append(d.Models, Model{g.device, g.memory})
		}
		machine := machines[b.table.machineOf[i]]
		d.gpus = append(d.gpus, gpuDay{b.table.gpus.All[i], machine, index})
		d.offsets = append(d.offsets, uint32(len(d.first)))
		b.emit(g, d.silencesOf(int(machine)), statuses)
	}
	d.offsets = append(d.offsets, uint32(len(d.first)))
	b.finishStatuses()
	d.seal(b.table.names)
	if !b.measures {
		return d, nil
	}
	return d, b.finishUsage(order)
}

// finishStatuses renumbers the statuses in the order of the spans, and their rows without regard to jobs.
func (b *builder) finishStatuses() {
	d := b.day
	old := *d
	var rows pool.Numbered[Row]
	d.jobs = nil
	number := func(row uint32) uint32 {
		held := &b.table.distinct.All[row]
		if held.State == pool.Claimed {
			d.jobs = append(d.jobs, held.Job)
		}
		return uint32(rows.Number(held.Row))
	}
	number(0)
	d.statuses, d.extras = make([]statusRows, Absent+1, len(old.statuses)), nil
	renumbered := make([]uint32, len(old.statuses)) // 0: not yet
	renumbered[Absent] = Absent
	for i, s := range d.status {
		if renumbered[s] == 0 && s > Absent {
			rows := old.statuses[s]
			renumbered[s] = d.addStatus(statusRows{number(rows[0]), number(rows[1])}, old.FurtherClaims(s))
		}
		d.status[i] = renumbered[s]
	}
	d.Rows = rows.All
}

// finishMachines orders the day's machines by name and returns each one's new number.
func (b *builder) finishMachines() (number []uint32) {
	d := b.day
	order := make([]uint32, 0, len(b.machines))
	for i := range b.machines {
		if b.machines[i].seen >= 0 {
			order = append(order, uint32(i))
		}
	}
	texts := b.table.names.Texts()
	slices.SortFunc(order, func(i, j uint32) int {
		return cmp.Compare(texts[b.table.machines.All[i]], texts[b.table.machines.All[j]])
	})
	number = make([]uint32, len(b.machines))
	for n, i := range order {
		m := &b.machines[i]
		if m.seen < len(d.Times)-1 {
			m.silent = append(m.silent, interval{uint16(m.seen + 1), uint16(len(d.Times) - 1)})
		}
		m.bits.Name = b.table.machines.All[i]
		d.silentOffsets = append(d.silentOffsets, uint32(len(d.silent)))
		d.silent = append(d.silent, m.silent...)
		d.roomOffsets, d.rooms = append(d.roomOffsets, uint32(len(d.rooms))), append(d.rooms, m.rooms...)
		d.slotOffsets = append(d.slotOffsets, uint32(len(d.slots)))
		d.slots = append(d.slots, m.wholeSlots(b.table.names)...)
		d.Machines = append(d.Machines, m.bits)
		number[i] = uint32(n)
	}
	d.silentOffsets = append(d.silentOffsets, uint32(len(d.silent)))
	d.roomOffsets = append(d.roomOffsets, uint32(len(d.rooms)))
	d.slotOffsets = append(d.slotOffsets, uint32(len(d.slots)))
	return number
}

// wholeSlots are the machine's backfill slots by name, without the dynamic slots of one that is there itself.
func (m *machineBuild) wholeSlots(names *Names) []Symbol {
	texts := names.Texts()
	slots := slices.DeleteFunc(slices.Clone(m.backfill), func(s Symbol) bool {
		whole := wholeSlot(texts[s])
		return whole != texts[s] && slices.ContainsFunc(m.backfill, func(s Symbol) bool { return texts[s] == whole })
	})
	slices.SortFunc(slots, func(a, b Symbol) int { return cmp.Compare(texts[a], texts[b]) })
	return slots
}

// emit appends the spans of a GPU. In snapshots in which it has no row, it is Silent if its machine has none either,
// otherwise Absent. It uses the memory of statuses, one by snapshot.
func (b *builder) emit(g *gpuBuild, silent []interval, statuses []uint32) {
	for i := range statuses {
		statuses[i] = Absent
	}
	copy(statuses[g.first:], g.statuses)
	for _, s := range silent {
		for i := int(s.First); i <= int(s.Last); i++ {
			statuses[i] = Silent
		}
	}
	for i, status := range statuses {
		if i == 0 || status != statuses[i-1] {
			b.day.first, b.day.status = append(b.day.first, uint16(i)), append(b.day.status, status)
		}
	}
}
