package demand

import (
	"cmp"
	"context"
	"crypto/sha256"
	"math"
	"slices"
	"strings"
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
	wishes := wishesOf(a.all)
	roomless := map[timeline.Symbol]bool{}
	err = eachPoll(ctx, a.polls, a.all, a.names, first, last, func(poll int, queues []queue) error {
		slice, there := s.At(a.polls.Times[poll])
		if !there {
			return nil
		}
		t, err := a.stock.turns(ctx, slice, wishes, queues)
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

// turnsKey names sums by the waits that they are made from, the question and the view.
type turnsKey struct {
	waits    weak.Pointer[remembered]
	question [sha256.Size]byte
	view     string
}

// sumTurns sums over all polls of the days that the waits are of. Polls outside them do not matter to the window.
func (a *answer) sumTurns(ctx context.Context, tl *timeline.Timeline, count func(*turns, *pollSums)) (*pollSums,
	error) {
	question, err := counts.Question(a.plan, a.plan.GroupBy)
	if err != nil {
		return nil, err
	}
	key := turnsKey{weak.Make(a.waits), question, a.plan.View}
	if known, _ := a.memo.Recall(key).(*pollSums); known != nil {
		return known, nil
	}
	sums := &pollSums{}
	first, last := a.polls.from(a.waits.window.From), a.polls.upTo(a.waits.window.To)
	sums.roomless, err = a.visitTurns(ctx, tl, first, last, func(poll int, t *turns) {
		if from, to, holds := a.polls.interval(poll); holds {
			sums.held = append(sums.held, interval{from, to})
			count(t, sums)
		}
	})
	if err == nil {
		a.memo.Keep(key, sums)
	}
	return sums, err
}

// series returns a series for each group. words are the values of the grouping that is always there.
func (a *answer) series(sums *pollSums, grouping string, words []string) (data.Frames, error) {
	w := a.plan.Window
	buckets, err := a.plan.Buckets(w.From)
	if err != nil {
		return nil, err
	}
	if err := query.Hold(len(sums.groups.All), buckets.Len()); err != nil {
		return nil, err
	}
	c, levels := sums.averages(buckets.Starts, w)
	a.tellEstimate(sums.roomless)
	a.about.Stat("Hours of polls with snapshots", "h", pool.Hours(c.until(w.To)-c.until(w.From)))
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
	keys := a.keys(a.plan.GroupBy, a.matches)
	sums, err := a.sumTurns(ctx, tl, func(t *turns, sums *pollSums) {
		for _, turn := range t.order {
			if k := keys[turn.wait]; k != nil {
				sums.add(group{*k, uint8(turn.obstacle)}, 1, a.all[turn.wait].Request.GPUs)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return a.series(sums, "obstacle", query.Obstacles)
}

// choosesGPU reports whether the filter chooses a GPU.
func (a *answer) choosesGPU(g *stockGPU) bool {
	s := &a.plan.Select
	return s.Machines.Match(g.machine) && s.Ownerships[g.ownership] && s.MatchDevice(a.names.Text(g.model.Device)) &&
		s.MatchMemory(pool.MemoryClass(g.model.Memory))
}

// unused draws the Unused GPUs, by reason.
func (a *answer) unused(ctx context.Context, tl *timeline.Timeline) (data.Frames, error) {
	a.about.Info("unused GPUs are known at the times that polls of the queues cover")
	var keys []*aggregate.Key // of the stock's GPUs; nil: not chosen
	sums, err := a.sumTurns(ctx, tl, func(t *turns, sums *pollSums) {
		if keys == nil {
			keys = a.keysOfStock()
		}
		for _, u := range t.units {
			if k := keys[u.gpu]; k != nil && a.plan.Select.Reasons[u.why] {
				sums.add(group{*k, uint8(u.why)}, 0, 1)
			}
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
		if a.choosesGPU(g) {
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
	jobs            map[int]bool // that took a GPU of the row
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
	var rows []*unusedRow
	err = a.visitTurnsAt(ctx, tl, poll, func(t *turns) { rows = a.unusedRows(t) })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(x, y *unusedRow) int {
		return cmp.Or(cmp.Compare(y.gpus, x.gpus), strings.Compare(x.machine, y.machine),
			strings.Compare(x.device, y.device), strings.Compare(x.why, y.why), cmp.Compare(x.memory, y.memory))
	})
	list := rows[:a.about.Shown(len(rows))]
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
func (a *answer) unusedRows(t *turns) (rows []*unusedRow) {
	type place struct {
		machine timeline.Symbol
		device  timeline.Symbol
		size    float64
		why     reason
	}
	var places pool.Numbered[place]
	for n, u := range t.units {
		g := &a.stock.gpus[u.gpu]
		if !a.choosesGPU(g) || !a.plan.Select.Reasons[u.why] {
			continue
		}
		at := place{g.symbol, g.model.Device, g.size, u.why}
		i := int(places.Number(at))
		if i == len(rows) {
			rows = append(rows, &unusedRow{machine: g.machine, device: a.names.Text(g.model.Device), memory: g.model.Memory,
				why: query.Reasons[u.why], jobs: map[int]bool{}, missing: math.NaN(), serves: math.NaN()})
		}
		rows[i].gpus++
		if job, took := t.took[int32(n)]; took {
			rows[i].jobs[job] = true
		}
	}
	for i, at := range places.All {
		switch s := slices.IndexFunc(t.shelves, func(s shelf) bool { return s.symbol == at.machine }); at.why {
		case aJobFits:
			rows[i].serves = float64(len(rows[i].jobs))
		case lacksCPUs:
			missing, jobs := t.helps(&t.shelves[s], false)
			rows[i].missing, rows[i].serves = missing, float64(jobs)
		case lacksMemory:
			missing, jobs := t.helps(&t.shelves[s], true)
			rows[i].missing, rows[i].serves = missing/1024, float64(jobs)
		}
	}
	return rows
}

// obstaclesNow returns the obstacle of each wait at a poll; none if it has no slice.
func (a *answer) obstaclesNow(ctx context.Context, tl *timeline.Timeline, poll pool.Micros) (map[*Wait]*string, error) {
	now := map[*Wait]*string{}
	err := a.visitTurnsAt(ctx, tl, a.polls.from(poll), func(t *turns) {
		for _, turn := range t.order {
			now[&a.all[turn.wait]] = &query.Obstacles[turn.obstacle]
		}
	})
	return now, err
}
