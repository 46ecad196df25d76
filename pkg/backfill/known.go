package backfill

import (
	"context"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/survival"
)

// known are the periods of all machines: what does not depend on a window is made once for as long as the same is known
// of runs.
type known struct {
	// rows come by machine, GPU and time. Their ends are those of the runs that bound them (if there are ads), and what
	// unseen runs cover is left out; those that go on at the last observed snapshot are as the snapshots show them.
	rows     []row
	classes  *linked.Classes
	byLength []ranked // those in statistics by rank
	// seen is where snapshots show them, before unseen runs were left out: by machine, GPU and time.
	seen []bounds
}

// fate is what a period is for statistics.
type fate uint8

const (
	complete fate = iota
	censored
	unknownStart  // in no statistics
	leftTruncated // in no statistics
	fates
	open // not known before there is a window
)

func (p *Period) fate() fate {
	switch {
	case p.open:
		return open
	case p.Beginning == UnknownStart:
		return unknownStart
	case p.Beginning == LeftTruncated:
		return leftTruncated
	case p.Censored():
		return censored
	}
	return complete
}

// row is a period in few bytes: there are many.
type row struct {
	start, end pool.Micros
	class      int32
	seen       int32 // its bounds, in known.seen
	unseen     int32
	fate       fate
	beginning  Beginning
	reason     Reason
	link       runs.Link
}

// row returns a period of a class, with the number of its bounds.
func (p *Period) row(class, seen int32) row {
	return row{p.Start, p.End, class, seen, p.unseen, p.fate(), p.Beginning, p.Reason, p.Link}
}

// period returns the period of a row.
func (k *known) period(r *row) Period {
	class := &k.classes.All[r.class]
	return Period{Place: class.Place, Project: class.Project, Start: r.start, End: r.end, Beginning: r.beginning,
		Reason: r.reason, Link: r.link, open: r.fate == open, unseen: r.unseen, bounds: k.seen[r.seen]}
}

// rank orders rows by length; of one length those come first that curves take first. It is twice the length, and one
// more if the row is complete.
func (r *row) rank() rank {
	k := rank(r.end-r.start) * 2
	if r.fate == complete {
		k++
	}
	return k
}

type rank int64

// item is a row of the rank as a survival curve takes it, without entry.
func (k rank) item() survival.Item {
	return survival.Item{Exit: pool.Micros(k >> 1), Fate: [...]survival.Fate{survival.Censored, survival.Event}[k&1]}
}

// ranked is a known row's number with its rank.
type ranked struct {
	rank   rank
	number int32
}

// periodsOf returns the periods that are known of a measure. Errors are ctx's.
func periodsOf(ctx context.Context, o *runs.Observed, of *runs.Known, m measure) (*known, error) {
	return runs.DerivedAgain(ctx, of, m, func(before *known, same *runs.Same) (*known, error) {
		if same == nil {
			before, same = &known{classes: &linked.Classes{}}, &runs.Same{}
		}
		machines := make([]finding, len(o.Machines))
		err := parallel.Each(ctx, len(o.Machines), func(found *[]Period, n int) {
			f := &machines[n]
			f.takeOver(o, before, same, n)
			*found = (*found)[:0]
			for g := range f.gpus {
				*found = find(*found, o, n, g, f.gpus[g].behind, m)
			}
			f.explain(o, of, m, *found)
		})
		if err != nil {
			return nil, err
		}
		return joined(ctx, before, machines)
	})
}

// newestFirst returns the numbers of known periods by their end, the latest first. Errors are ctx's.
func newestFirst(ctx context.Context, of *runs.Known, m measure, k *known) ([]int32, error) {
	type key measure
	return runs.Derived(ctx, of, key(m), func() ([]int32, error) {
		return runs.Order(len(k.rows), func(i int) pool.Micros { return -k.rows[i].end }), nil
	})
}

// chosen are the periods that overlap a window and pass a filter, in groups.
type chosen struct {
	known  *known
	groups *groups
	// Of each of the known periods twice its group, and one more if it began before the window; negative = it is none of
	// these as it is known.
	of []int32
	// Those that go on, end after the window, or began before what is seen for it, in the order of the known ones.
	cut   []cutPeriod
	fates [][fates]int // how many there are, by group
	seen  []bool       // the machines that they are of
}

// cutPeriod is a period that a window cuts.
type cutPeriod struct {
	Period
	row
	number, group int32
}

// choosing brings known periods to a window.
type choosing struct {
	observed *runs.Observed
	window   pool.Window
	since    int32
	cutter   cutter
	whole    gpuTenures // nil, or to be given all parts of each GPU's, before they are cut to the window
}

// choose brings the known periods to a window.
func (k *known) choose(c *choosing, g *groups) (*chosen, error) {
	found := &chosen{known: k, groups: g, of: make([]int32, len(k.rows)), seen: make([]bool, len(c.observed.Machines))}
	w := c.window
	for i := range k.rows {
		r := &k.rows[i]
		seen := &k.seen[r.seen]
		found.of[i] = -1
		if r.fate == open || seen.first <= c.since && seen.last >= c.since {
			if err := found.takeParts(c, int32(i)); err != nil {
				return nil, err
			}
			continue
		}
		if c.whole != nil {
			p := k.period(r)
			c.whole.add(&p)
		}
		if r.end < w.From || r.start > w.To {
			continue
		}
		if r.end > w.To {
			if err := found.take(k.period(r), w, int32(i)); err != nil {
				return nil, err
			}
			continue
		}
		group, err := g.number(r.class)
		if err != nil {
			return nil, err
		}
		if group >= 0 {
			found.of[i] = group << 1
			if r.start < w.From {
				found.of[i]++
			}
			found.count(group, r.fate, seen.machine)
		}
	}
	return found, nil
}

// takeParts takes what a window sees of a period that goes on or began before what is seen.
func (c *chosen) takeParts(of *choosing, number int32) error {
	p := c.known.period(&c.known.rows[number])
	wasOpen := p.open
	p.close(of.observed, of.window)
	p.from(of.observed, of.since)
	parts := []Period{p}
	if wasOpen {
		parts = of.cutter.parts(p)
	}
	for i := range parts {
		if of.whole != nil {
			of.whole.add(&parts[i])
		}
		if err := c.take(parts[i], of.window, number); err != nil {
			return err
		}
	}
	return nil
}

// take cuts a period to the window.
func (c *chosen) take(p Period, w pool.Window, number int32) error {
	if p.open = false; !p.cut(w) {
		return nil
	}
	group, err := c.groups.of(linked.Class{Place: p.Place, Project: p.Project})
	if err != nil || group < 0 {
		return err
	}
	cut := cutPeriod{Period: p, row: row{start: p.Start, end: p.End, fate: p.fate()}, number: number, group: group}
	c.cut = append(c.cut, cut)
	c.count(group, cut.row.fate, p.machine)
	return nil
}

func (c *chosen) count(group int32, f fate, machine int32) {
	if int(group) == len(c.fates) {
		c.fates = append(c.fates, [fates]int{})
	}
	c.fates[group][f]++
	c.seen[machine] = true
}

// total is how many there are in all groups.
func (c *chosen) total() (all [fates]int) {
	for _, of := range c.fates {
		for f, n := range of {
			all[f] += n
		}
	}
	return all
}

// each yields all of them with their groups, by machine, GPU and time.
func (c *chosen) each(yield func(group int32, r *row)) {
	cut := c.cut
	for i, group := range c.of {
		for len(cut) > 0 && cut[0].number == int32(i) {
			yield(cut[0].group, &cut[0].row)
			cut = cut[1:]
		}
		if group >= 0 {
			yield(group>>1, &c.known.rows[i])
		}
	}
}

// byLength yields those that are in statistics with their groups, by rank: as survival curves take them, of which the
// event is that they are complete.
func (c *chosen) byLength(w pool.Window, yield func(group int32, it survival.Item)) {
	cut := make([]*cutPeriod, 0, len(c.cut))
	for i := range c.cut {
		if f := c.cut[i].row.fate; f == complete || f == censored {
			cut = append(cut, &c.cut[i])
		}
	}
	runs.Sort(cut, func(p *cutPeriod) pool.Micros { return pool.Micros(p.row.rank()) })
	next := func() {
		it := cut[0].row.rank().item()
		it.Entry = max(0, w.From-cut[0].row.start)
		yield(cut[0].group, it)
		cut = cut[1:]
	}
	for _, k := range c.known.byLength {
		group := c.of[k.number]
		if group < 0 {
			continue
		}
		for len(cut) > 0 && cut[0].row.rank() < k.rank {
			next()
		}
		it := k.rank.item()
		if group&1 != 0 {
			it.Entry = w.From - c.known.rows[k.number].start
		}
		yield(group>>1, it)
	}
	for len(cut) > 0 {
		next()
	}
}

// newest returns the n that end last, the latest first; those that end together by machine, GPU and time. order is that
// of all known ones.
func (c *chosen) newest(order []int32, n int) []*Period {
	cut := make([]*cutPeriod, len(c.cut))
	for i := range c.cut {
		cut[i] = &c.cut[i]
	}
	runs.Sort(cut, func(p *cutPeriod) pool.Micros { return -p.row.end })
	list, whole := make([]*Period, 0, n), make([]Period, 0, n)
	for _, i := range order {
		if len(list) == n {
			break
		}
		if c.of[i] < 0 {
			continue
		}
		end := c.known.rows[i].end
		for len(cut) > 0 && (cut[0].row.end > end || cut[0].row.end == end && cut[0].number < i) {
			list, cut = append(list, &cut[0].Period), cut[1:]
		}
		whole = append(whole, c.known.period(&c.known.rows[i]))
		list = append(list, &whole[len(whole)-1])
	}
	for _, p := range cut {
		list = append(list, &p.Period)
	}
	return list[:n]
}
