package runs

import (
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// hold is a job's unbroken hold of one GPU.
type hold struct {
	side              pool.Side
	gpu               int32
	first, last       int32
	job               timeline.Job
	user              timeline.Symbol
	segFirst, segLast int32 // segments of the GPU
	run               int32 // index in Machine.Runs
}

// sameClaim tells whether two holds are of one claim: the same job; without a GlobalJobId the same user and GPU
// (methodology section 8).
func (h *hold) sameClaim(i *hold) bool {
	return h.side == i.side && h.job == i.job && (!h.job.IsNone() || h.user == i.user && h.gpu == i.gpu)
}

// hold finds the holds of a GPU. A backfill row beside a primary claim is stale: it holds nothing (see fresh).
func (w *walker) hold(g int) {
	var open []int // of the last claimed segment, indices in w.holds
	for i, s := range w.segments[g] {
		if s.status.state != Taken && s.status.state != Used {
			continue
		}
		side := sideOf(s.status.state)
		if !s.status.stale.IsNone() {
			w.stale = append(w.stale, hold{side: pool.Backfill, first: s.first, last: s.last, job: s.status.stale})
		}
		still := open[:0]
		claim := func(job timeline.Job, user timeline.Symbol) {
			h := hold{side: side, gpu: int32(g), first: s.first, last: s.last, job: job, user: user, segFirst: int32(i), segLast: int32(i), run: -1}
			for _, n := range open {
				if o := &w.holds[n]; o.sameClaim(&h) && w.follows(o.last, s.first, int32(g)) {
					o.last, o.segLast = s.last, int32(i)
					still = append(still, n)
					return
				}
			}
			still = append(still, len(w.holds))
			w.holds = append(w.holds, h)
		}
		if s.status.extra == nil {
			claim(s.status.job, s.status.user)
			open = still
			continue
		}
		open = slices.Clone(open)
		still = nil
		claim(s.status.job, s.status.user)
		for _, e := range s.status.extra {
			claim(e.Job, e.User)
		}
		open = still
	}
}

// follows tells whether a snapshot is the next one after last that shows the machine, one silent snapshot aside, and no
// gap lies between.
func (w *walker) follows(last, next, g int32) bool {
	switch {
	case w.gapAfter(last):
		return false
	case next == last+1:
		return true
	}
	return next == last+2 && !w.gapAfter(last+1) && w.state(g, last+1) == Unknown
}

func (w *walker) state(g, snapshot int32) State {
	return w.segments[g][w.at(g, snapshot)].status.state
}

// piece is a Run in the making.
type piece struct {
	Run
	hold  int   // its first hold
	holds []int // all holds, once there are several
	cut   int32 // the first snapshot, after a GPU joined, at which a primary slot holds it; only with several GPUs
}

const never = 1<<31 - 1

// builder joins a machine's holds to runs.
type builder struct {
	*walker
	order  []uint64 // holds that are left: first snapshot, index in holds
	pieces []piece
	active []int // pieces that can go on
}

func key(first int32, hold int) uint64 { return uint64(first)<<32 | uint64(hold) }

// build joins the holds in the order of their first snapshots. Of those that begin at one snapshot, first come those of
// GPUs that a run held just before: they keep it going, and then others can join it.
func (w *walker) build() {
	b := builder{walker: w, order: make([]uint64, len(w.holds))}
	for h := range w.holds {
		b.order[h] = key(w.holds[h].first, h)
	}
	slices.Sort(b.order)
	for next := 0; next < len(b.order); {
		start := int32(b.order[next] >> 32)
		end := next + 1
		for end < len(b.order) && int32(b.order[end]>>32) == start {
			end++
		}
		b.active = slices.DeleteFunc(b.active, func(p int) bool { return b.pieces[p].Last+2 < start || b.pieces[p].cut <= start })
		same := b.order[next:end]
		for _, k := range same {
			b.join(int(uint32(k)), b.continues)
		}
		for _, k := range same {
			if h := int(uint32(k)); b.holds[h].run < 0 && !b.join(h, b.shares) && b.fresh(h) {
				b.open(h)
			}
		}
		next = end
	}
	w.machine.Runs = make([]Run, len(b.pieces))
	for p := range b.pieces {
		b.end(&b.pieces[p])
		w.machine.Runs[p] = b.pieces[p].Run
	}
}

// fresh tells whether a run can begin with a hold. Where a primary slot holds another GPU of the job, all rows of the job
// are stale: they stand for a run that is over. What is left of the hold comes later.
func (b *builder) fresh(h int) bool {
	of := &b.holds[h]
	for i := range b.stale {
		if s := &b.stale[i]; s.side == of.side && s.job == of.job && s.first <= of.first && of.first <= s.last {
			rest := *of
			of.segLast = of.segFirst - 1 // nothing
			b.later(rest, s.last+1)
			return false
		}
	}
	return true
}

// later puts the rest of a hold, from a snapshot on, back among the holds that are left.
func (b *builder) later(rest hold, first int32) {
	if rest.first = first; rest.first > rest.last {
		return
	}
	rest.segFirst, rest.run = int32(b.at(rest.gpu, rest.first)), -1
	k := key(rest.first, len(b.holds))
	at, _ := slices.BinarySearch(b.order, k)
	b.order = slices.Insert(b.order, at, k)
	b.holds = append(b.holds, rest)
}

// continues tells whether a hold is the next one of a GPU that the piece held before.
func (b *builder) continues(p *piece, h *hold) bool {
	return p.Last < h.first && b.follows(p.Last, h.first, h.gpu) && slices.Contains(p.GPUs, h.gpu)
}

// shares tells whether the piece holds another GPU when the hold begins.
func (b *builder) shares(p *piece, h *hold) bool { return p.Last >= h.first }

func (b *builder) open(h int) {
	of := &b.holds[h]
	of.run = int32(len(b.pieces))
	run := Run{Side: of.side, Job: of.job, User: of.user, GPUs: []int32{of.gpu}, Leader: of.gpu, Project: b.segments[of.gpu][of.segFirst].status.project, First: of.first, Last: of.last}
	b.active = append(b.active, len(b.pieces))
	b.pieces = append(b.pieces, piece{Run: run, hold: h, cut: never})
}

// join adds a hold to the piece that it belongs to, if there is one.
func (b *builder) join(h int, belongs func(*piece, *hold) bool) bool {
	of := &b.holds[h]
	for _, n := range b.active {
		p := &b.pieces[n]
		if !b.holds[p.hold].sameClaim(of) || !belongs(p, of) {
			continue
		}
		if p.holds == nil {
			p.holds = []int{p.hold}
		}
		p.holds = append(p.holds, h)
		p.Last = max(p.Last, of.last)
		of.run = int32(n)
		if at, known := slices.BinarySearch(p.GPUs, of.gpu); !known {
			p.GPUs = slices.Insert(p.GPUs, at, of.gpu)
			if of.first == p.First {
				p.Leader = min(p.Leader, of.gpu)
			}
		}
		if p.Side == pool.Backfill && len(p.GPUs) > 1 {
			b.reclaim(p)
		}
		return true
	}
	return false
}

// reclaim ends a piece with several GPUs where a primary slot takes one of them. Rows of the others in that snapshot are
// stale; if they are still there in the next one, another run begins with them.
func (b *builder) reclaim(p *piece) {
	joined := map[int32]int32{}
	for _, h := range p.holds {
		of := b.holds[h]
		if first, known := joined[of.gpu]; !known || of.first < first {
			joined[of.gpu] = of.first
		}
	}
	for gpu, first := range joined {
		for _, s := range b.segments[gpu][b.at(gpu, first):] {
			if s.first >= p.cut || s.first > p.Last+1 {
				break
			}
			if s.first > first && s.status.state == Taken {
				p.cut = s.first
				break
			}
		}
	}
	if p.Last < p.cut {
		return
	}
	p.Last = p.First
	for _, h := range p.holds {
		of := &b.holds[h]
		if of.last >= p.cut {
			rest := *of
			of.last, of.segLast = p.cut-1, int32(b.at(of.gpu, p.cut-1))
			b.later(rest, p.cut+1)
			of = &b.holds[h]
		}
		p.Last = max(p.Last, of.last)
	}
}

// end tells how the snapshots see a run end.
func (b *builder) end(p *piece) {
	next := p.Last + 1
	switch {
	case int(next) >= b.observed.End:
		p.Ending = EndOfData
		return
	case b.gapAfter(p.Last):
		p.Ending = Interrupted
		return
	}
	for _, g := range p.GPUs {
		at := int(b.holds[p.hold].segLast) + 1
		if p.holds != nil {
			at = b.at(g, next)
		}
		switch s := &b.segments[g][at]; {
		case s.status.state == Unknown:
			p.Ending = Interrupted
		case s.status.state == Taken && p.Side == pool.Backfill && !p.Takeover:
			p.Takeover, p.TakenBy = true, s.status.user
		}
	}
}
