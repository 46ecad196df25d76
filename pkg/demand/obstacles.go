package demand

import (
	"cmp"
	"context"
	"crypto/sha256"
	"math"
	"slices"
	"strings"
	"unsafe"
	"weak"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Why jobs wait and GPUs are unused (methodology section 16).

// visitTurns calls visit with the turns of each poll from a first to a last one that has a slice, which are valid until
// it returns. It returns the number of machines whose room is not known.
func (a *answer) visitTurns(ctx context.Context, tl *timeline.Timeline, first, last int,
	visit func(poll int, t *turns)) (unknown int, err error) {
	if first > last {
		return 0, nil
	}
	s, err := pollSlices(ctx, tl, a.plan, a.polls, pool.Window{From: a.polls.Times[first], To: a.polls.Times[last]})
	if err != nil {
		return 0, err
	}
	wanted := map[int]bool{}
	for poll := first; poll <= last; poll++ {
		if slice, there := s.At(a.polls.Times[poll]); there {
			wanted[slice] = true
		}
	}
	if a.stock, err = newStock(ctx, s, a.plan.Env.Lists, wanted); err != nil {
		return 0, err
	}
	a.texts = a.names.Texts()
	turner := newTurner(a.stock, a.all)
	roomless := map[timeline.Symbol]bool{}
	err = eachPoll(ctx, a.polls, a.all, a.names, first, last, func(poll int, queues []queue) error {
		slice, there := s.At(a.polls.Times[poll])
		if !there {
			return nil
		}
		t, err := turner.at(ctx, slice, queues)
		if err != nil {
			return err
		}
		for i := range t.shelves {
			if s := &t.shelves[i]; math.IsInf(s.cpus, 1) || math.IsInf(s.memory, 1) {
				roomless[s.symbol] = true
			}
		}
		visit(poll, t)
		return nil
	})
	return len(roomless), err
}

// tellEstimate says what turns do not know.
func (a *answer) tellEstimate(roomless int) {
	a.about.Info("the reasons why jobs wait and GPUs are unused are estimates: requirements other than GPUs, CPUs and " +
		"memory are not known, and jobs are placed one by one")
	if roomless > 0 {
		a.about.Info("the CPUs and memory that %s left are not in the snapshots: there `cpus` and `memory` cannot be "+
			"distinguished from `fits`", frames.Count(roomless, "machine")+" had")
	}
}

// visitTurnsAt calls visit with the turns of one poll, if it has a slice.
func (a *answer) visitTurnsAt(ctx context.Context, tl *timeline.Timeline, poll int, visit func(*turns)) error {
	roomless, err := a.visitTurns(ctx, tl, poll, poll, func(_ int, t *turns) { visit(t) })
	a.tellEstimate(roomless)
	return err
}

// turnSums are the sums over the turns of polls, by group. The views of a window that has moved within its first and
// last UTC day share them.
type turnSums struct {
	held     []interval // polls with a slice, each up to the next one
	groups   []group
	counts   []turnCount // by poll
	roomless int         // machines whose room is not known
}

// turnCount is the jobs and GPUs of a group at a poll, by their numbers in turnSums.
type turnCount struct {
	poll, group int32
	jobs, gpus  float64
}

// Bytes is the live memory.
func (s *turnSums) Bytes() int {
	return cap(s.counts)*int(unsafe.Sizeof(turnCount{})) + cap(s.groups)*int(unsafe.Sizeof(group{})) +
		cap(s.held)*int(unsafe.Sizeof(interval{})) + 200
}

// turnsKey names sums by the waits that they are made from, the question and the view.
type turnsKey struct {
	waits    weak.Pointer[remembered]
	question [sha256.Size]byte
	view     string
}

// sumTurns sums over all polls of the days that the waits are of. Polls outside them do not matter to the window.
func (a *answer) sumTurns(ctx context.Context, tl *timeline.Timeline,
	count func(t *turns, add func(g group, jobs, gpus float64))) (*turnSums, error) {
	question, err := counts.Question(a.plan, a.plan.GroupBy)
	if err != nil {
		return nil, err
	}
	key := turnsKey{weak.Make(a.waits), question, a.plan.View}
	if known, _ := a.memo.Recall(key).(*turnSums); known != nil {
		return known, nil
	}
	sums := &turnSums{}
	var numbers pool.Numbered[group]
	add := func(g group, jobs, gpus float64) {
		sums.counts = append(sums.counts, turnCount{int32(len(sums.held) - 1), numbers.Number(g), jobs, gpus})
	}
	first, last := a.polls.from(a.waits.window.From), a.polls.upTo(a.waits.window.To)
	sums.roomless, err = a.visitTurns(ctx, tl, first, last, func(poll int, t *turns) {
		if from, to, holds := a.polls.interval(poll); holds {
			sums.held = append(sums.held, interval{from, to})
			count(t, add)
		}
	})
	if sums.groups = numbers.All; err == nil {
		a.memo.Keep(key, sums)
	}
	return sums, err
}

// group is the key under which jobs or GPUs are counted, with a reason or an obstacle.
type group struct {
	key  aggregate.Key
	word uint8 // of the obstacle or the reason
}

// averages are the average numbers of jobs and GPUs of groups.
type averages map[group]*[2]level

// add adds numbers that hold over an interval.
func (m averages) add(c *clock, g group, from, to pool.Micros, jobs, gpus float64) {
	levels := m[g]
	if levels == nil {
		levels = &[2]level{newLevel(c), newLevel(c)}
		m[g] = levels
	}
	levels[0].add(from, to, jobs)
	levels[1].add(from, to, gpus)
}

// series returns a series for each group. words are the values of the grouping that is always there.
func (a *answer) series(sums *turnSums, grouping string, words []string) (data.Frames, error) {
	w := a.plan.Window
	buckets, err := a.plan.Buckets(w.From)
	if err != nil {
		return nil, err
	}
	if err := query.Hold(len(sums.groups), buckets.Len()); err != nil {
		return nil, err
	}
	until := coveredBy(sums.held)
	c := newClock(buckets.Starts, w, until)
	a.tellEstimate(sums.roomless)
	a.about.Stat("Hours of polls with snapshots", "h", pool.Hours(until(w.To)-until(w.From)))
	levels := averages{}
	for _, n := range sums.counts {
		if at := sums.held[n.poll]; at.to > w.From && at.from <= w.To {
			levels.add(c, sums.groups[n.group], at.from, at.to, n.jobs, n.gpus)
		}
	}
	drawn := a.drawn(buckets)
	f := &Figures{Times: aggregate.Times(buckets, a.slices, w.To)}
	for g, of := range levels {
		points := make([]Sums, buckets.Len())
		jobs, gpus := of[0].means(), of[1].means()
		for b := range points {
			points[b] = Sums{Jobs: jobs[b], GPUs: gpus[b]}
		}
		texts := a.textsOf(g.key, a.plan.GroupBy)
		texts[slices.Index(a.plan.GroupBy, grouping)] = words[g.word]
		f.Groups = append(f.Groups, GroupFigures{Texts: texts, Points: points, Drawn: drawn})
	}
	return Frames(f, a.plan, a.about), nil
}

// obstacles draws the requests of waiting jobs, by their obstacle.
func (a *answer) obstacles(ctx context.Context, tl *timeline.Timeline) (data.Frames, error) {
	var keys pool.Numbered[aggregate.Key]
	var groupOf []int32 // by wait; −1: not chosen
	var found [][obstacles][2]float64
	sums, err := a.sumTurns(ctx, tl, func(t *turns, add func(group, float64, float64)) {
		if groupOf == nil {
			groupOf = a.groupsOf(&keys)
		}
		found = slices.Grow(found[:0], len(keys.All))[:len(keys.All)]
		clear(found)
		for _, turn := range t.all {
			if g := groupOf[turn.wait]; g >= 0 {
				of := &found[g][turn.obstacle]
				of[0]++
				of[1] += a.all[turn.wait].Request.GPUs
			}
		}
		for n := range found {
			for o, of := range found[n] {
				if of[0] > 0 {
					add(group{keys.All[n], uint8(o)}, of[0], of[1])
				}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return a.series(sums, "obstacle", query.Obstacles)
}

// groupsOf numbers the groups of all waits; −1: the filter does not choose it.
func (a *answer) groupsOf(keys *pool.Numbered[aggregate.Key]) []int32 {
	numbers := make([]int32, len(a.all))
	for i := range a.all {
		numbers[i] = -1
		if a.matches(&a.all[i]) {
			k := keyOf(&a.all[i])
			numbers[i] = keys.Number(k.Within(a.plan.GroupBy))
		}
	}
	return numbers
}

// chooses reports whether the filter chooses a GPU.
func (a *answer) chooses(g *stockGPU) bool {
	s := &a.plan.Select
	return s.Machines.Match(g.machine) && s.Ownerships[g.ownership] && s.MatchDevice(a.names.Text(g.model.Device)) &&
		s.MatchMemory(pool.MemoryClass(g.model.Memory))
}

// unused draws the Unused GPUs, by reason.
func (a *answer) unused(ctx context.Context, tl *timeline.Timeline) (data.Frames, error) {
	a.about.Info("unused GPUs are known at the times that polls of the queues cover")
	var keys []*aggregate.Key // of the stock's GPUs; nil: not chosen
	found := map[group]float64{}
	sums, err := a.sumTurns(ctx, tl, func(t *turns, add func(group, float64, float64)) {
		if keys == nil {
			keys = a.keysOfStock()
		}
		clear(found)
		for _, u := range t.units {
			if k := keys[u.gpu]; k != nil && a.plan.Select.Reasons[u.why] {
				found[group{*k, uint8(u.why)}]++
			}
		}
		for g, n := range found {
			add(g, 0, n)
		}
	})
	if err != nil {
		return nil, err
	}
	return a.series(sums, "reason", query.Reasons)
}

func (a *answer) keysOfStock() []*aggregate.Key {
	keys := make([]*aggregate.Key, len(a.stock.gpus))
	for n := range a.stock.gpus {
		g := &a.stock.gpus[n]
		if a.chooses(g) {
			k := aggregate.Key{Device: g.model.Device, Ownership: g.ownership,
				Memory: uint8(slices.Index(pool.MemoryClasses, pool.MemoryClass(g.model.Memory)))}
			k = k.Within(a.plan.GroupBy)
			keys[n] = &k
		}
	}
	return keys
}

// unusedRow is a row of the view unusedNow.
type unusedRow struct {
	machine, device string
	memory          float64 // MiB
	why             string
	gpus            float64
	missing, serves float64
}

// unusedNow lists the unused GPUs at the newest poll that has a slice.
func (a *answer) unusedNow(ctx context.Context, tl *timeline.Timeline) (data.Frames, error) {
	s, err := pollSlices(ctx, tl, a.plan, a.polls, a.plan.Window)
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
	var rows []unusedRow
	err = a.visitTurnsAt(ctx, tl, poll, func(t *turns) { rows = a.unusedRows(t) })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(x, y unusedRow) int {
		return cmp.Or(cmp.Compare(y.gpus, x.gpus), strings.Compare(x.machine, y.machine),
			strings.Compare(x.device, y.device), strings.Compare(x.why, y.why), cmp.Compare(x.memory, y.memory))
	})
	list := make([]*unusedRow, a.about.Shown(len(rows)))
	for i := range list {
		list[i] = &rows[i]
	}
	return frames.Columns(a.plan, a.about,
		frames.Text("machine", frames.Each(list, func(r *unusedRow) string { return r.machine })),
		frames.Text("device", frames.Each(list, func(r *unusedRow) string { return r.device })),
		frames.Number("memoryGB", frames.Each(list, func(r *unusedRow) float64 { return r.memory / 1024 })),
		frames.Number("gpus", frames.Each(list, func(r *unusedRow) float64 { return r.gpus })),
		frames.Text("reason", frames.Each(list, func(r *unusedRow) string { return r.why })),
		frames.Number("missing", frames.Each(list, func(r *unusedRow) float64 { return r.missing })),
		frames.Number("servesJobs", frames.Each(list, func(r *unusedRow) float64 { return r.serves }))), nil
}

// unusedRows adds up the unused GPUs by machine, device, memory and reason.
func (a *answer) unusedRows(t *turns) (rows []unusedRow) {
	type place struct {
		machine timeline.Symbol
		device  timeline.Symbol
		size    float64
		why     reason
	}
	var places pool.Numbered[place]
	jobs := map[place]map[int]bool{} // that took a GPU of a row
	for n, u := range t.units {
		g := &a.stock.gpus[u.gpu]
		if !a.chooses(g) || !a.plan.Select.Reasons[u.why] {
			continue
		}
		at := place{g.symbol, g.model.Device, g.size, u.why}
		i := int(places.Number(at))
		if i == len(rows) {
			rows = append(rows, unusedRow{machine: g.machine, device: a.names.Text(g.model.Device), memory: g.model.Memory,
				why: query.Reasons[u.why], missing: math.NaN(), serves: math.NaN()})
		}
		rows[i].gpus++
		if job, took := t.took[int32(n)]; took {
			if jobs[at] == nil {
				jobs[at] = map[int]bool{}
			}
			jobs[at][job] = true
		}
	}
	for i, at := range places.All {
		switch s := slices.IndexFunc(t.shelves, func(s shelf) bool { return s.symbol == at.machine }); at.why {
		case aJobFits:
			rows[i].serves = float64(len(jobs[at]))
		case lacksCPUs:
			h := t.helps(&t.shelves[s], false)
			rows[i].missing, rows[i].serves = h.missing, float64(h.jobs)
		case lacksMemory:
			h := t.helps(&t.shelves[s], true)
			rows[i].missing, rows[i].serves = h.missing/1024, float64(h.jobs)
		}
	}
	return rows
}

// obstaclesNow returns the obstacle of each wait at a poll; nil if it has no slice.
func (a *answer) obstaclesNow(ctx context.Context, tl *timeline.Timeline, poll pool.Micros) (map[*Wait]string, error) {
	var now map[*Wait]string
	err := a.visitTurnsAt(ctx, tl, a.polls.from(poll), func(t *turns) {
		now = map[*Wait]string{}
		for _, turn := range t.all {
			now[&a.all[turn.wait]] = query.Obstacles[turn.obstacle]
		}
	})
	return now, err
}
