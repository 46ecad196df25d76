package demand

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"weak"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Why jobs wait and GPUs are unused (methodology section 16).

func (a *answer) noteRoomless(t *placements) {
	for i := range t.machines {
		if s := &t.machines[i]; math.IsInf(s.cpus, 1) || math.IsInf(s.memory, 1) {
			a.roomless[s.symbol] = true
		}
	}
}

func (a *answer) tellEstimate(roomless int) {
	text := "the reasons why jobs wait and GPUs are unused are estimates: requirements other than GPUs, CPUs and memory " +
		"are not known, and jobs are placed one by one"
	if roomless > 0 {
		text += fmt.Sprintf(". The CPUs and memory that %s had left are not in the snapshots: there `cpus` and `memory` "+
			"cannot be distinguished from `fits`", frames.Count(roomless, "machine"))
	}
	a.about.Count("Machines whose free CPUs and memory are not known", roomless, "%s", text)
}

// placementsAt returns the turns of one poll; none if it has no slice.
func (a *answer) placementsAt(ctx context.Context, poll int) (*placements, error) {
	t := &placements{}
	err := a.visitPolls(ctx, poll, poll, func(slice int, waiting []int32) func(interval) {
		t = a.unusedGPUs.place(slice, a.requests, waiting)
		return func(interval) { a.noteRoomless(t) }
	})
	a.tellEstimate(len(a.roomless))
	return t, err
}

type sumsKey struct {
	waits    weak.Pointer[remembered]
	question [sha256.Size]byte
	view     string
}

// sumPolls sums over all polls of the days that the waits are of. Polls outside them do not matter to the window.
func (a *answer) sumPolls(ctx context.Context, sums *pollSums, visit visitor) (*pollSums, error) {
	key := sumsKey{weak.Make(a.waits), a.plan.Question(a.plan.GroupBy), a.plan.View}
	return stores.Remember(a.memo, key, func() (*pollSums, error) {
		first, last := a.polls.from(a.waits.window.From), a.polls.upTo(a.waits.window.To)
		return sums, a.visitPolls(ctx, first, last, visit)
	})
}

// seriesOf draws a series for each group that is counted at the turns of each poll. by is the grouping that is always
// there; groups returns the groups, and the number of each counted thing's.
func (a *answer) seriesOf(ctx context.Context, by query.Grouping, groups func() ([]aggregate.Key, []int32),
	count func(*placements, []int32, *pollSums)) (data.Frames, error) {
	var of []int32
	now := &pollSums{}
	sums, err := a.sumPolls(ctx, now, func(slice int, waiting []int32) func(interval) {
		t := a.unusedGPUs.place(slice, a.requests, waiting)
		return func(at interval) {
			a.noteRoomless(t)
			if now.roomless = len(a.roomless); at.to == 0 {
				return
			}
			if of == nil {
				now.keys, of = groups()
				now.counts = make([][reasons][]pollCount, len(now.keys))
			}
			now.held = append(now.held, at)
			count(t, of, now)
		}
	})
	if err != nil {
		return nil, err
	}
	return a.draw(sums, by)
}

func (a *answer) draw(sums *pollSums, by query.Grouping) (data.Frames, error) {
	w := a.plan.Window
	buckets, err := a.plan.Buckets(w.From)
	if err != nil {
		return nil, err
	}
	if err := query.CheckCells(sums.lists, buckets.Len()); err != nil {
		return nil, err
	}
	c := newClock(buckets.Starts, w, sums.held)
	a.tellEstimate(sums.roomless)
	a.about.Tell("Hours of polls with snapshots", "h", pool.Hours(c.until(w.To)-c.until(w.From)),
		"obstacles and unused GPUs are known at the times that polls of the queues cover")
	var groups []GroupFigures
	for g := range sums.keys {
		for word, counts := range sums.counts[g] {
			if !slices.ContainsFunc(counts, func(n pollCount) bool { return sums.held[n.poll].reaches(w) }) {
				continue
			}
			points := make([]Sums, buckets.Len())
			for _, n := range counts {
				for b, covered := range c.parts(sums.held[n.poll].from, sums.held[n.poll].to) {
					points[b].Jobs += n.jobs * covered
					points[b].GPUs += n.gpus * covered
				}
			}
			c.average(points)
			key := sums.keys[g]
			key[by] = uint32(word)
			groups = append(groups, GroupFigures{Texts: key.Texts(a.plan, a.plan.GroupBy, a.texts), Points: points})
		}
	}
	return a.series(buckets, groups), nil
}

func (a *answer) obstacles(ctx context.Context) (data.Frames, error) {
	ofWaits := func() ([]aggregate.Key, []int32) {
		var keys pool.Numbered[aggregate.Key]
		a.chosen = a.choose(a.matches)
		of, _ := a.groups(a.plan.GroupBy, a.chosen, &keys)
		return keys.All, of
	}
	return a.seriesOf(ctx, query.ByObstacle, ofWaits, func(t *placements, of []int32, sums *pollSums) {
		for _, turn := range t.order {
			if group := of[turn.wait]; group >= 0 {
				sums.add(group, int(turn.obstacle), 1, t.all[t.of[turn.wait]].GPUs)
			}
		}
	})
}

func (a *answer) choosesUnused(g *placedGPU, why reason) bool {
	key := aggregate.KeyOf(g.Place)
	key[query.ByReason] = uint32(why)
	return a.filter.Keeps(key)
}

func (a *answer) unused(ctx context.Context) (data.Frames, error) {
	return a.seriesOf(ctx, query.ByReason, a.groupsOfGPUs, func(t *placements, of []int32, sums *pollSums) {
		for _, u := range t.unused {
			if a.choosesUnused(&a.unusedGPUs.gpus[u.gpu], u.why) {
				sums.add(of[u.gpu], int(u.why), 0, 1)
			}
		}
	})
}

// groupsOfGPUs returns the groups of the unused GPUs, and the number of each GPU's.
func (a *answer) groupsOfGPUs() (keys []aggregate.Key, of []int32) {
	var numbers pool.Numbered[aggregate.Key]
	of = make([]int32, len(a.unusedGPUs.gpus))
	by := query.GroupingsOf(a.plan.GroupBy)
	for n := range a.unusedGPUs.gpus {
		of[n] = numbers.Number(aggregate.KeyOf(a.unusedGPUs.gpus[n].Place).Within(by))
	}
	return numbers.All, of
}

type unusedRow struct {
	*placedGPU      // one of its GPUs
	device          string
	why             reason
	gpus            float64
	jobs            map[int]bool // that took a GPU of the row
	missing, serves float64
}

// unusedNow lists the unused GPUs at the newest poll that has a slice.
func (a *answer) unusedNow(ctx context.Context) (data.Frames, error) {
	s, err := a.pollSlices(ctx, a.plan.Window)
	if err != nil {
		return nil, err
	}
	poll := a.polls.upTo(a.plan.Window.To)
	for ; poll >= 0 && a.polls.Times[poll] >= a.plan.Window.From; poll-- {
		if _, there := s.At(a.polls.Times[poll]); there {
			break
		}
	}
	if poll < 0 || a.polls.Times[poll] < a.plan.Window.From {
		return a.about.Finish(nil), nil
	}
	t, err := a.placementsAt(ctx, poll)
	if err != nil {
		return nil, err
	}
	rows := a.unusedRows(t)
	slices.SortFunc(rows, func(x, y *unusedRow) int {
		return cmp.Or(cmp.Compare(y.gpus, x.gpus), strings.Compare(x.machine, y.machine),
			strings.Compare(x.device, y.device), strings.Compare(query.Reasons[x.why], query.Reasons[y.why]),
			cmp.Compare(x.memory, y.memory))
	})
	list := rows[:a.about.Shown(len(rows))]
	return frames.Columns(a.plan, a.about,
		list.Text("machine", func(r *unusedRow) string { return r.machine }),
		list.Text("device", func(r *unusedRow) string { return r.device }),
		list.Number("memoryGB", func(r *unusedRow) float64 { return r.memory / 1024 }),
		list.Number("gpus", func(r *unusedRow) float64 { return r.gpus }),
		list.Text("reason", func(r *unusedRow) string { return query.Reasons[r.why] }),
		list.Number("missing", func(r *unusedRow) float64 { return r.missing }),
		list.Number("servesJobs", func(r *unusedRow) float64 { return r.serves })), nil
}

// unusedRows adds up the unused GPUs by machine, device, memory and reason.
func (a *answer) unusedRows(t *placements) (rows frames.Rows[unusedRow]) {
	type place struct {
		machine, device timeline.Symbol
		size            float64
		why             reason
	}
	var places pool.Numbered[place]
	for n, u := range t.unused {
		g := &a.unusedGPUs.gpus[u.gpu]
		if !a.choosesUnused(g, u.why) {
			continue
		}
		i := int(places.Number(place{g.Machine, g.Device, g.size, u.why}))
		if i == len(rows) {
			rows = append(rows, &unusedRow{placedGPU: g, device: a.names.Text(g.Device), why: u.why,
				jobs: map[int]bool{}, missing: math.NaN(), serves: math.NaN()})
		}
		rows[i].gpus++
		if job, took := t.took[int32(n)]; took {
			rows[i].jobs[job] = true
		}
	}
	for _, r := range rows {
		switch s := slices.IndexFunc(t.machines, func(s freeMachine) bool { return s.symbol == r.Machine }); r.why {
		case aJobFits:
			r.serves = float64(len(r.jobs))
		case lacksCPUs:
			missing, jobs := t.helps(&t.machines[s], false)
			r.missing, r.serves = missing, float64(jobs)
		case lacksMemory:
			missing, jobs := t.helps(&t.machines[s], true)
			r.missing, r.serves = missing/1024, float64(jobs)
		}
	}
	return rows
}

// stay is the polls at which a job waits, and what its place in the line depends on.
type stay struct {
	wait         int32
	first, last  int
	memory, gpus float64
	job          string
}

// lineOf returns the jobs that wait at polls from a first to a last one, in the order in which they are served: those
// that ask for most GPU memory first, then those that ask for most GPUs, then by GlobalJobId.
func lineOf(waits []Wait, p *Polls, names *timeline.Names, first, last int) []stay {
	var line []stay
	for i := range waits {
		w := &waits[i]
		if from, to := max(p.from(w.First), first), min(p.upTo(w.Last), last); from <= to {
			line = append(line, stay{int32(i), from, to, w.Request.GPUMemory, math.Ceil(w.Request.GPUs),
				names.JobText(w.Job)})
		}
	}
	slices.SortFunc(line, func(a, b stay) int {
		if c := cmp.Or(cmp.Compare(b.memory, a.memory), cmp.Compare(b.gpus, a.gpus)); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(a.job, b.job), cmp.Compare(a.first, b.first), cmp.Compare(a.wait, b.wait))
	})
	return line
}

const (
	sameTime = 48 // polls whose waits are in memory at the same time: 38,000 each
	atOnce   = 12 // how many of these one goroutine fills, for which it reads the line once
)

// visitor visits a poll: its slice, and its waits in the order in which they are served. The waits are valid until it
// returns. It is called in parallel, and changes nothing that visits share; then is called for one poll after another,
// with the time over which the poll's state lasts: zero at the last poll and before a gap.
type visitor func(slice int, waiting []int32) (then func(at interval))

// visitPolls finds unused GPUs and requests, and visits each poll from a first to a last one that has a slice.
func (a *answer) visitPolls(ctx context.Context, first, last int, visit visitor) error {
	if first > last {
		return nil
	}
	// Find the unused GPUs at the polls.
	s, err := a.pollSlices(ctx, pool.Window{From: a.polls.Times[first], To: a.polls.Times[last]})
	if err != nil {
		return err
	}
	if a.unusedGPUs, err = findUnused(ctx, s, a.plan.Env.Lists, a.polls.Times[first:last+1]); err != nil {
		return err
	}
	a.texts, a.requests = a.names.Texts(), requestsOf(a.all)
	a.filter = aggregate.NewFilter(a.plan, a.texts) // GPUs can have new names
	// Fill and visit a bounded number of polls at the same time.
	line := lineOf(a.all, a.polls, a.names, first, last)
	var waiting [sameTime][]int32
	for base := first; base <= last; base += sameTime {
		var then [sameTime]func(interval)
		err := parallel.Chunks(ctx, min(sameTime, last+1-base), atOnce, func(from, end int) {
			for i := range line {
				for n := max(line[i].first-base, from); n < min(line[i].last+1-base, end); n++ {
					waiting[n] = append(waiting[n], line[i].wait)
				}
			}
			for n := from; n < end; n++ {
				if slice, there := s.At(a.polls.Times[base+n]); there {
					then[n] = visit(slice, waiting[n])
				}
				waiting[n] = waiting[n][:0]
			}
		})
		if err != nil {
			return fmt.Errorf("placing waiting jobs: %w", err)
		}
		for n, count := range then {
			if count != nil {
				count(a.polls.heldFrom(a.polls.Times[base+n]))
			}
		}
	}
	return nil
}

// firstFit is the first of ascending sizes of GPUs with at least the given memory; 0 means any.
func firstFit(sizes []float64, memory float64) int {
	if memory == 0 {
		return 0
	}
	return sort.SearchFloat64s(sizes, memory)
}

// place returns the waits whose jobs take free GPUs, the smallest that do. sizes are those of the free GPUs, ascending;
// they are overwritten. A job that does not get all it asks for gets none.
func (w *requests) place(sizes []float64, waiting []int32) (served []int32) {
	failed := int32(-1) // the request that was last in vain: often the next job has the same one
	for _, wait := range waiting {
		request := w.of[wait]
		if request == failed {
			continue
		}
		wants := &w.all[request]
		if first := firstFit(sizes, wants.GPUMemory); first+wants.n() <= len(sizes) {
			sizes = slices.Delete(sizes, first, first+wants.n())
			served = append(served, wait)
		} else {
			failed = request
		}
	}
	return served
}
