package timeline

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// errOtherRows says that the rows of a day are not those that its segment was made from.
var errOtherRows = fmt.Errorf("the rows are not those of the segment: %w", snapshots.ErrStale)

// usageIngest makes the usage of a day from its rows (methodology section 13). In a snapshot a claim reports the
// last value, in file order, that its rows have: a claim is a job on one side of a machine; without a GlobalJobId a
// user on one side of a GPU.
type usageIngest struct {
	day     *Day
	jobs    Jobs
	names   *Names
	index   map[GPU]int // the day's number of each GPU
	earlier *Usage      // what a reading is resumed from; nil if there is none
	builder *usageBuilder

	rows   [][]usageRow // the distinct ones, of each one for each of its GPUs that it holds
	ids    pool.Numbered[usageClaim]
	claims []claimState
	active []int // claims of the snapshot, as indices
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

func newUsageIngest(day *Day, gpus []GPU, names *Names, earlier *Usage) *usageIngest {
	in := &usageIngest{day: day, earlier: earlier, jobs: day.Jobs(), names: names, index: make(map[GPU]int, len(gpus)),
		builder: newUsageBuilder(gpus)}
	for i, gpu := range gpus {
		in.index[gpu] = i
	}
	return in
}

// Begin implements snapshots.Visitor. A reading that is resumed continues at the newest snapshot of the earlier usage.
func (in *usageIngest) Begin(resumed bool) {
	if resumed {
		in.builder.resume(in.earlier, in.earlier.snapshots-1, in.index)
	}
}

// Distinct implements snapshots.Visitor.
func (in *usageIngest) Distinct(row snapshots.Row) {
	text, _ := row.Values()
	var rows []usageRow
	if machine := text[snapshots.Machine]; text.State() == pool.Claimed && !pool.IsBlank(machine) {
		for _, id := range text.GPUs() {
			i, known := in.index[in.names.gpuOf(machine, id)]
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
	if in.day.leavesOut(s.Time) {
		return nil
	}
	number := in.builder.snapshot()
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

// note puts a claim's value into the usage.
func (in *usageIngest) note(number int, c *claimState) error {
	switch {
	case math.IsNaN(c.value):
		return nil
	case c.leader >= 0:
		in.builder.set(number, UsagePlace{GPU: c.leader, Side: c.side}, c.value)
		return nil
	}
	further := in.day.Status(in.statusAt(c.first, number)).Extra
	i := slices.IndexFunc(further, func(e Claim) bool { return e.Side == c.side && c.is(e.User, e.Job) })
	if i < 0 {
		return fmt.Errorf("a claim that the segment does not know: %w", errOtherRows)
	}
	in.builder.setFurther(FurtherUsage{UsagePlace{GPU: c.first, Side: c.side}, number, i, c.value})
	return nil
}

// statusAt returns a GPU's status in a snapshot.
func (in *usageIngest) statusAt(gpu, snapshot int) uint32 {
	first, statuses := in.day.Spans(gpu)
	return statuses[sort.Search(len(first), func(k int) bool { return int(first[k]) > snapshot })-1]
}

// gives reports whether the claim gives its side's state in a status.
func (in *usageIngest) gives(status uint32, c *usageClaim) bool {
	both := in.day.Status(status)
	row := both.Row(c.side)
	return row.State == pool.Claimed && c.is(row.User, in.jobs.Of(status, c.side))
}
