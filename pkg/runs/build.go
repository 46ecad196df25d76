package runs

import (
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// claimInterval is a job's unbroken hold of one GPU.
type claimInterval struct {
	side              pool.Side
	gpu               int32
	first, last       int32
	job               timeline.Job
	user              timeline.Symbol
	segFirst, segLast int32 // segments of the GPU
	run               int32 // index in Machine.Runs
}

// sameClaim reports whether two holds are of one job, or without a GlobalJobId of one user and GPU (section 8).
func (h *claimInterval) sameClaim(i *claimInterval) bool {
	return h.side == i.side && h.job == i.job && (!h.job.IsNone() || h.user == i.user && h.gpu == i.gpu)
}

// findClaims finds the holds of a GPU. A backfill row beside a primary claim is stale: it holds nothing (see fresh).
func (w *segmenter) findClaims(g int) {
	var open, still []int // holds that the last claimed segment has, as indices in w.holds
	for i := range w.segments[g] {
		s := &w.segments[g][i]
		t := w.status(s)
		if !t.state.claimed() {
			continue
		}
		claim := claimInterval{side: t.state.side(), gpu: int32(g), first: s.first, last: s.last, job: t.job, user: t.user,
			segFirst: int32(i), segLast: int32(i), run: -1}
		still = append(still[:0], w.claim(open, claim))
		if !s.bridged {
			for _, e := range t.extra {
				claim.job, claim.user = e.Job, e.User
				still = append(still, w.claim(open, claim))
			}
			for _, job := range t.stale {
				w.stale = append(w.stale, stale{job, s.first, s.last})
			}
		}
		open, still = still, open
	}
}

// claim adds a hold of one segment to the open one that it continues, or otherwise to the holds, and returns its index.
func (w *segmenter) claim(open []int, h claimInterval) int {
	for _, n := range open {
		if o := &w.holds[n]; o.sameClaim(&h) && w.follows(o.last, h.first, h.gpu) {
			o.last, o.segLast = h.last, h.segLast
			return n
		}
	}
	w.holds = append(w.holds, h)
	return len(w.holds) - 1
}

// follows reports whether a snapshot is the next one that shows the machine, but for one silent one, without a gap.
func (w *segmenter) follows(last, next, g int32) bool {
	switch {
	case w.GapAfter(last):
		return false
	case next == last+1:
		return true
	}
	return next == last+2 && !w.GapAfter(last+1) && w.silent(&w.segments[g][w.at(g, last+1)])
}

// piece has the data for building a run that are not in the Run itself.
type piece struct {
	holds []int
	cut   int32 // the first snapshot, after a GPU joined, at which a primary slot holds it; only with several GPUs
}

const never = 1<<31 - 1

// builder joins a machine's holds to runs.
type builder struct {
	*segmenter
	order  []uint64 // what is left of holds: first snapshot, index in holds
	runs   []Run
	pieces []piece // by run
	active []int   // runs that can continue

	// Memory for the first hold of each run, for the GPUs of runs with one, and for the holds of all runs.
	firsts []int
	gpus   []int32
	held   []hold
}

func key(first int32, hold int) uint64 { return uint64(first)<<32 | uint64(hold) }

// build joins the holds in the order of their first snapshots. Among holds that begin at the same snapshot, first come
// those of GPUs that a run held just before: they keep it going, and then others can join it. For example, a job holds
// GPU 0 in snapshots 1 to 9 and GPU 1 in snapshots 5 to 12: GPU 1 joins while the run lasts, so it is one run from 1 to
// 12 with both. If it holds GPU 1 from snapshot 10 on, the claim is over, so GPU 1 begins a second run.
func (w *segmenter) build() {
	n := len(w.holds)
	b := &w.builder // served the machine before: what a run keeps is made for each machine
	*b = builder{segmenter: w, order: b.order[:0], runs: b.runs[:0], pieces: b.pieces[:0], active: b.active[:0],
		firsts: b.firsts[:0], gpus: make([]int32, 0, n), held: make([]hold, 0, n)}
	for h := range w.holds {
		b.order = append(b.order, key(w.holds[h].first, h))
	}
	slices.Sort(b.order)
	for next := 0; next < len(b.order); {
		start := int32(b.order[next] >> 32)
		end := next + 1
		for end < len(b.order) && int32(b.order[end]>>32) == start {
			end++
		}
		b.active = slices.DeleteFunc(b.active, func(n int) bool {
			return b.runs[n].Last+2 < start || b.pieces[n].cut < start
		})
		same := b.order[next:end]
		shares := func(r *Run, h *claimInterval) bool { return r.Last >= h.first } // the run holds another GPU then
		for _, k := range same {
			b.join(int(uint32(k)), b.continues)
		}
		for _, k := range same {
			if h := int(uint32(k)); b.holds[h].run < 0 && !b.join(h, shares) && b.fresh(h) {
				b.open(h)
			}
		}
		next = end
	}
	for n := range b.runs {
		b.end(n)
	}
	w.machine.Runs = slices.Clone(b.runs)
}

// fresh reports whether a run can begin with a hold. If a backfill row of the job is on a GPU with a primary claim, all
// rows of the job are stale, because they belong to a run that is over. The rest of the hold is added later.
func (b *builder) fresh(h int) bool {
	of := &b.holds[h]
	until := of.first - 1
	for _, s := range b.stale {
		if of.side == pool.Backfill && s.job == of.job && !s.job.IsNone() && s.first <= of.first && of.first <= s.last {
			until = max(until, s.last)
		}
	}
	if until < of.first {
		return true
	}
	rest := *of
	of.segLast = of.segFirst - 1 // nothing
	b.later(rest, until+1)
	return false
}

// later puts the rest of a hold, from a snapshot onward, back among the holds that are left.
func (b *builder) later(rest claimInterval, first int32) {
	if rest.first = first; first <= rest.last && !b.Reports(b.machine, first) {
		rest.first++ // within a hold, a machine misses single snapshots only
	}
	if rest.first > rest.last {
		return
	}
	rest.segFirst, rest.run = int32(b.at(rest.gpu, rest.first)), -1
	k := key(rest.first, len(b.holds))
	at, _ := slices.BinarySearch(b.order, k)
	b.order = slices.Insert(b.order, at, k)
	b.holds = append(b.holds, rest)
}

// continues reports whether a hold is the next one of a GPU that the run held before.
func (b *builder) continues(r *Run, h *claimInterval) bool {
	return r.Last < h.first && b.follows(r.Last, h.first, h.gpu) && slices.Contains(r.GPUs, h.gpu)
}

func (b *builder) open(h int) {
	of, n := &b.holds[h], len(b.runs)
	of.run = int32(n)
	b.active, b.firsts, b.gpus = append(b.active, n), append(b.firsts, h), append(b.gpus, of.gpu)
	b.runs = append(b.runs, Run{
		Side: of.side, Job: of.job, User: of.user, GPUs: b.gpus[n : n+1 : n+1], Leader: of.gpu,
		Project: b.status(&b.segments[of.gpu][of.segFirst]).project, First: of.first, Last: of.last,
	})
	b.pieces = append(b.pieces, piece{holds: b.firsts[n : n+1 : n+1], cut: never})
}

// join adds a hold to the run that it belongs to, if there is one.
func (b *builder) join(h int, belongs func(*Run, *claimInterval) bool) bool {
	of := &b.holds[h]
	for _, n := range b.active {
		r, p := &b.runs[n], &b.pieces[n]
		if p.cut <= of.first || !b.holds[p.holds[0]].sameClaim(of) || !belongs(r, of) {
			continue
		}
		p.holds = append(p.holds, h)
		r.Last = max(r.Last, of.last)
		of.run = int32(n)
		if at, known := slices.BinarySearch(r.GPUs, of.gpu); !known {
			r.GPUs = slices.Insert(r.GPUs, at, of.gpu)
			if of.first == r.First {
				r.Leader = min(r.Leader, of.gpu)
			}
		}
		if r.Side == pool.Backfill && len(r.GPUs) > 1 {
			b.reclaim(r, p)
		}
		return true
	}
	return false
}

// reclaim ends a piece with several GPUs at the snapshot in which a primary slot takes one of them. If the job still
// holds others in that snapshot, another run may begin with them.
func (b *builder) reclaim(r *Run, p *piece) {
	// Find the first snapshot in which an owner holds one of the GPUs that joined.
	joined := map[int32]int32{}
	for _, h := range p.holds {
		of := &b.holds[h]
		if first, known := joined[of.gpu]; !known || of.first < first {
			joined[of.gpu] = of.first
		}
	}
	for gpu, first := range joined {
		for i := b.at(gpu, first); i < len(b.segments[gpu]); i++ {
			s := &b.segments[gpu][i]
			if s.first >= p.cut || s.first > r.Last+1 {
				break
			}
			if s.first > first && b.status(s).state == Taken {
				p.cut = s.first
				break
			}
		}
	}
	if r.Last < p.cut {
		return
	}
	// End the holds before it, and put back what is left of them.
	r.Last = r.First
	before := p.cut - 1
	if !b.Reports(b.machine, before) {
		before--
	}
	for _, h := range p.holds {
		if of := &b.holds[h]; of.last >= p.cut {
			rest := *of
			of.last, of.segLast = before, int32(b.at(of.gpu, before))
			b.later(rest, p.cut)
		}
		r.Last = max(r.Last, b.holds[h].last)
	}
}

// end returns how the snapshots see a run end.
func (b *builder) end(n int) {
	r, p := &b.runs[n], &b.pieces[n]
	first := len(b.held)
	for _, h := range p.holds {
		if of := &b.holds[h]; of.first <= of.last {
			b.held = append(b.held, hold{of.gpu, of.first, of.last})
		}
	}
	r.holds = slices.Clip(b.held[first:])
	if r.Gone = r.Last + 1; p.cut == r.Last+2 {
		r.Gone = p.cut // the machine was silent before
	}
	switch {
	case int(r.Gone) >= b.End:
		r.Ending = EndOfData
		return
	case b.GapAfter(r.Last):
		r.Ending = Interrupted
		return
	}
	for _, g := range r.GPUs {
		at := int(b.holds[p.holds[0]].segLast) + 1
		if len(p.holds) > 1 {
			at = b.at(g, r.Gone)
		}
		s := &b.segments[g][at]
		switch t := b.status(s); {
		case b.silent(s):
			r.Ending = Interrupted
		case t.state == Taken && r.Side == pool.Backfill && !r.Takeover:
			r.Takeover, r.TakenBy = true, t.user
		}
	}
}
