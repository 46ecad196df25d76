package timeline

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/timeline/usage"
)

// errOtherRows says that the rows of a day are not those that its segment was made from.
var errOtherRows = fmt.Errorf("the rows are not those of the segment: %w", snapshots.ErrStale)

// usageIngest makes the usage block of a day from its rows (methodology section 13). In a snapshot a claim reports the
// last value, in file order, that its rows have: a claim is a job on one side of a machine; without a GlobalJobId a
// user on one side of a GPU.
type usageIngest struct {
	day     *Day
	jobs    Jobs
	names   *Names
	index   map[GPU]int // the day's number of each GPU
	earlier usageDay    // what a reading is resumed from
	builder *usage.Builder

	rows   [][]usageRow // the distinct ones, of each one for each of its GPUs that it holds
	ids    pool.Numbered[usageClaim]
	claims []claimState
	active []int // claims of the snapshot, as indices
	spans  []int // of each GPU, the span that holds the snapshot
}

// usageRow is a claimed row of a GPU.
type usageRow struct{ gpu, claim int }

type usageClaim struct {
	machine int
	side    pool.Side
	job     Job
	user    Symbol // without a job
	gpu     int    // likewise
}

// is reports whether a claimed row of the claim's side, on one of its GPUs, belongs to it.
func (c *usageClaim) is(user Symbol, job Job) bool {
	return job == c.job && (!job.IsNone() || user == c.user)
}

// claimState holds what a claim's rows say in a snapshot.
type claimState struct {
	usageClaim
	snapshot int // the last one with a row
	value    float64
	first    int // the lowest of its GPUs
	leader   int // the lowest of its GPUs whose state it gives, −1: none
}

func newUsageIngest(day *Day, names *Names, earlier usageDay) *usageIngest {
	in := &usageIngest{day: day, earlier: earlier, jobs: day.Jobs(), names: names, index: make(map[GPU]int, day.GPUs()),
		builder: usage.NewBuilder(day.GPUs())}
	for i := range day.GPUs() {
		in.index[day.GPU(i)] = i
	}
	in.spans = make([]int, day.GPUs())
	return in
}

// Begin implements snapshots.Visitor. A reading that is resumed continues at the newest snapshot of the earlier block.
func (in *usageIngest) Begin(resumed bool) {
	if !resumed {
		return
	}
	moved := make([]int, len(in.earlier.gpus))
	for i, g := range in.earlier.gpus {
		moved[i] = in.index[g] // a day that only grew has it still
	}
	in.builder.Resume(in.earlier.Block, in.earlier.Snapshots()-1, moved)
}

// Distinct implements snapshots.Visitor.
func (in *usageIngest) Distinct(row snapshots.Row) {
	text := row.Columns()
	var rows []usageRow
	if machine := text[snapshots.Machine]; text.State() == pool.Claimed && !pool.IsBlank(machine) {
		for _, id := range text.GPUs() {
			i, known := in.index[in.names.gpu(in.names.Symbol(machine), in.names.Symbol(id))]
			if id == "" || !known {
				continue
			}
			c := usageClaim{machine: in.day.MachineOf(i), side: text.Side(),
				job: in.names.Job(strings.TrimSpace(text[snapshots.GlobalJobID]))}
			if c.job.IsNone() {
				c.user, c.gpu = in.names.Symbol(strings.TrimSpace(text[snapshots.RemoteOwner])), i
			}
			rows = append(rows, usageRow{i, in.claim(c)})
		}
	}
	in.rows = append(in.rows, rows)
}

func (in *usageIngest) claim(c usageClaim) int {
	n := int(in.ids.Number(c))
	if n == len(in.claims) {
		in.claims = append(in.claims, claimState{usageClaim: c, snapshot: -1})
	}
	return n
}

// Snapshot implements snapshots.Visitor.
func (in *usageIngest) Snapshot(s snapshots.Snapshot) error {
	number := in.builder.Snapshot()
	if number >= len(in.day.Times) || in.day.Times[number] != s.Time {
		return errOtherRows
	}
	in.active = in.active[:0]
	for i, id := range s.Rows {
		for _, r := range in.rows[id] {
			in.row(number, r, s.Usage[i])
		}
	}
	for _, n := range in.active {
		if err := in.note(number, &in.claims[n]); err != nil {
			return err
		}
	}
	return nil
}

// row takes a claimed row of a snapshot.
func (in *usageIngest) row(number int, r usageRow, value float64) {
	c := &in.claims[r.claim]
	if c.snapshot != number {
		c.snapshot, c.value, c.first, c.leader = number, math.NaN(), r.gpu, -1
		in.active = append(in.active, r.claim)
	}
	if value >= 0 { // NaN is not
		c.value = value
	}
	c.first = min(c.first, r.gpu)
	if (c.leader < 0 || r.gpu < c.leader) && in.gives(in.statusAt(r.gpu, number), &c.usageClaim) {
		c.leader = r.gpu
	}
}

// note puts a claim's value into the block.
func (in *usageIngest) note(number int, c *claimState) error {
	switch {
	case math.IsNaN(c.value):
		return nil
	case c.leader >= 0:
		in.builder.Set(number, usage.Place{GPU: c.leader, Side: c.side}, c.value)
		return nil
	}
	further := in.day.Status(in.statusAt(c.first, number)).Extra
	i := slices.IndexFunc(further, func(e Claim) bool { return e.Side == c.side && c.is(e.User, e.Job) })
	if i < 0 {
		return fmt.Errorf("a claim that the segment does not know: %w", errOtherRows)
	}
	in.builder.SetFurther(usage.Further{Place: usage.Place{GPU: c.first, Side: c.side}, Snapshot: number, Claim: i,
		Usage: c.value})
	return nil
}

// statusAt returns a GPU's status in a snapshot; calls must be in ascending order of snapshots.
func (in *usageIngest) statusAt(gpu, snapshot int) uint32 {
	first, statuses := in.day.Spans(gpu)
	at := &in.spans[gpu]
	for *at+1 < len(first) && int(first[*at+1]) <= snapshot {
		*at++
	}
	return statuses[*at]
}

// gives reports whether the claim gives its side's state in a status.
func (in *usageIngest) gives(status uint32, c *usageClaim) bool {
	primary, backfill := in.day.StatusRows(status)
	row := in.day.Row(primary)
	if c.side == pool.Backfill {
		row = in.day.Row(backfill)
	}
	return row.State == pool.Claimed && c.is(row.User, in.jobs.Of(status, c.side))
}

// block returns the day's block. Returns errOtherRows if snapshots of the day are missing.
func (in *usageIngest) block() (*usage.Block, error) {
	b := in.builder.Block()
	if b.Snapshots() != len(in.day.Times) {
		return nil, errOtherRows
	}
	return b, nil
}
