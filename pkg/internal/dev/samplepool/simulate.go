package samplepool

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
)

// Times of the simulation are milliseconds since the Unix epoch.
const (
	second int64 = 1000
	minute       = 60 * second
	hour         = 60 * minute

	warmUp   = 72 * hour   // simulated before Start, so that the pool begins in full swing
	lease    = 40 * minute // after which an access point gives up on a machine that is down
	idle     = 1           // JobStatus
	running  = 2
	removed  = 3
	complete = 4
	held     = 5
)

// job is one job from its first match until it leaves the queue.
type job struct {
	id        string // GlobalJobId
	schedd    *AccessPoint
	cluster   int
	proc      int
	queued    int64
	user      string
	project   string // ChtcProjects
	gpus      int
	work      int64 // a run's full length
	owner     *host // primary jobs: their machine
	status    int
	lastState int // JobStatus before this one
	entered   int64
	holds     int
	runs      []*run
}

// run is one execution attempt.
type run struct {
	job      *job
	host     *host
	gpus     []*gpu
	slot     int // of slot1_N, backfill2_N
	number   int
	start    int64
	end      int64 // known when reason is set
	reason   Reason
	holdsNow int // holds of the job before this run
	trace    *trace
	hidden   bool
	ended    bool
	failure  failure
}

// reported is the time at which the access point takes note of the run's end.
func (r *run) reported() int64 {
	if r.reason == HostDown {
		return r.end + lease
	}
	return r.end
}

// gpu is one GPU's present.
type gpu struct {
	id        string
	host      *host
	primary   *run
	backfill  *run  // may last some seconds after primary has come
	free      int64 // since when it is free for backfill; 0: it is not
	vacancies int   // counts times of freedom, so that an outdated claim is known
	completed int64 // end of the last completed backfill run, 0 once an owner came
}

// host is one machine's present.
type host struct {
	*Machine
	gpus      []*gpu
	primary   []*run // in order of start
	backfill  []*run // likewise
	queue     []*job // owner's jobs that wait
	rate      float64
	down      int   // > 0: no rows, no jobs
	drained   int   // > 0: no job starts
	prevented int   // likewise
	crowded   int   // > 0: CPUs are used up, no owner's job starts
	reports   int64 // shifts the startd's reports of usage
}

func (h *host) accepts() bool { return h.down == 0 && h.drained == 0 && h.prevented == 0 }

// serves reports whether owner's jobs start.
func (h *host) serves() bool { return h.accepts() && h.crowded == 0 }

// observer receives what happens, in the order of time. Any of its functions may be nil.
type observer struct {
	claimed func(g *gpu, evicted *run, stoodInBackfill bool) // an owner's job claims g
	ended   func(r *run)                                     // a run ended (Running: at the pool's End)
	left    func(j *job)                                     // a job left the queue, or stays on hold
	free    func(g *gpu, from, to int64, reason string)      // g was free for backfill

	idle       func(j *job, from int64)           // a job is idle in its queue from a time onward
	idleNoMore func(j *job, at int64, how string) // and no more
}

// quota steers a share of draws: what happens by itself counts too.
type quota struct {
	share      float64
	hits, cast float64
}

func (q *quota) draw(rnd *rand.Rand) bool {
	x := rnd.Float64()
	return q.hits < q.share*(q.cast+1) && x < 2*q.share
}

type event struct {
	at    int64
	order int // of equal times, the earlier made first
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

// simulation is a pool at one moment.
type simulation struct {
	pool    *Pool
	rnd     *rand.Rand
	now     int64
	end     int64
	cadence int64
	events  events
	order   int
	hosts   []*host
	waiting []*job // backfill jobs that run again, longest waiting first
	cluster []int  // of each access point
	batch   *job   // the job whose cluster the next one may join
	see     observer

	bugs *rand.Rand // which runs fail

	short, hold [2]quota // of finished primary, backfill runs
	follow      quota    // of completed backfill runs
}

func (p *Pool) simulate(see observer) *simulation {
	o := p.options
	s := &simulation{
		pool: p, rnd: p.random("simulation"), bugs: p.random("bugs"), see: see, now: o.Start.UnixMilli() - warmUp,
		end:     o.End.UnixMilli(),
		cadence: o.Cadence.Milliseconds(),
		cluster: make([]int, len(p.schedds)),
		short:   [2]quota{{share: o.ShortRuns}, {share: o.ShortRuns}}, hold: [2]quota{{share: o.Holds}, {share: o.Holds}},
		follow: quota{share: o.OwnerAfterCompletion},
	}
	reports := p.random("startd")
	for i := range p.machines {
		m := &p.machines[i]
		h := &host{Machine: m, reports: reports.Int64N(reportEvery)}
		for _, id := range m.GPUs {
			h.gpus = append(h.gpus, &gpu{id: id, host: h})
		}
		s.hosts = append(s.hosts, h)
		// Batches of owner's jobs an hour: load = rate · jobs a batch · GPUs · hours of a run.
		h.rate = m.load * float64(len(m.GPUs)) / (1.8 * 1.5 * 2 * o.OwnerHours)
		s.ownersNextBatch(h)
		for _, g := range h.gpus {
			s.settle(g, "")
		}
		s.troubles(h, o.Drains, s.drain)
		s.troubles(h, o.MachineDown, s.breakDown)
		s.troubles(h, o.Prevented, s.prevent)
		s.troubles(h, o.Crowded, s.crowd)
	}
	return s
}

func (s *simulation) at(t int64, do func()) {
	s.order++
	heap.Push(&s.events, event{t, s.order, do})
}

func (s *simulation) after(d int64, do func()) { s.at(s.now+d, do) }

// advance lets everything happen up to t.
func (s *simulation) advance(ctx context.Context, t int64) error {
	for n := 0; len(s.events) > 0 && s.events[0].at <= t; n++ {
		if n%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	s.now = t
	return ctx.Err()
}

// finish passes on the runs and waits that are open at the pool's End.
func (s *simulation) finish() {
	for _, h := range s.hosts {
		for _, r := range slices.Concat(h.primary, h.backfill) {
			r.end, r.reason = s.end, Running
			if s.see.ended != nil {
				s.see.ended(r)
			}
		}
		for _, g := range h.gpus {
			s.notFree(g, "window")
		}
	}
}

// between draws uniformly.
func (s *simulation) between(low, high int64) int64 { return low + s.rnd.Int64N(high-low+1) }

func (s *simulation) exponential(mean int64) int64 { return int64(s.rnd.ExpFloat64() * float64(mean)) }

// --- owners ---

// activity of owners in the hours of the week, 1 on average: afternoons are busy, weekends are not.
func (s *simulation) activity(t int64) float64 {
	local := time.UnixMilli(t).In(s.pool.zone)
	day := 1.26
	if w := local.Weekday(); w == time.Saturday || w == time.Sunday {
		day = 0.35
	}
	return day * (1 + 0.7*math.Cos((float64(local.Hour())-15)/24*2*math.Pi))
}

func (s *simulation) ownersNextBatch(h *host) {
	const busiest = 1.26 * 1.7
	t := s.now
	for {
		t += 1 + int64(s.rnd.ExpFloat64()/(h.rate*busiest)*float64(hour))
		if s.rnd.Float64()*busiest < s.activity(t) {
			break
		}
	}
	s.at(t, func() {
		for n := 1; n == 1 || n < 6 && s.rnd.Float64() < 0.45; n++ {
			h.queue = append(h.queue, s.newJob(h, s.jobSize(len(h.gpus))))
		}
		s.after(s.between(20*second, 4*minute), func() { s.serve(h) })
		s.ownersNextBatch(h)
	})
}

// serve starts owner's jobs that fit.
func (s *simulation) serve(h *host) {
	for i := 0; i < len(h.queue) && i < 10 && h.serves(); {
		j := h.queue[i]
		var unclaimed []*gpu
		for _, g := range h.gpus {
			if g.primary == nil {
				unclaimed = append(unclaimed, g)
			}
		}
		if len(unclaimed) < j.gpus {
			i++
			continue
		}
		h.queue = slices.Delete(h.queue, i, i+1)
		// The primary slot ignores how backfill slots use its GPUs.
		s.rnd.Shuffle(len(unclaimed), func(a, b int) { unclaimed[a], unclaimed[b] = unclaimed[b], unclaimed[a] })
		s.startPrimary(h, j, unclaimed[:j.gpus])
	}
}

func (s *simulation) startPrimary(h *host, j *job, gpus []*gpu) {
	r := s.newRun(h, j, gpus, &h.primary)
	evicted := map[*run]bool{}
	for _, g := range gpus {
		g.primary = r
		if g.completed > 0 && s.now-g.completed <= s.cadence {
			s.follow.hits++
			for _, other := range h.gpus { // the GPUs of one completed run count once
				if other.completed == g.completed {
					other.completed = 0
				}
			}
		}
		g.completed = 0
		victim := g.backfill
		if s.see.claimed != nil {
			s.see.claimed(g, victim, victim != nil && !victim.ended || g.free > 0)
		}
		if victim != nil && !evicted[victim] {
			evicted[victim] = true
			s.leave(victim, EvictedByPrimary, s.between(1*second, 10*second))
		}
		s.settle(g, "reclaimed")
	}
}

// followUp lets the owner claim a GPU soon after a backfill run on it completed.
func (s *simulation) followUp(g *gpu) {
	s.after(s.between(5*second, s.cadence*9/10), func() {
		if h := g.host; g.primary == nil && h.serves() && g.completed > 0 {
			s.startPrimary(h, s.newJob(h, 1), []*gpu{g})
		}
	})
}

// --- backfill ---

// settle notes whether a GPU is free for backfill now, and lets a job come for it after a while.
func (s *simulation) settle(g *gpu, reason string) {
	h := g.host
	isFree := h.Backfill && h.accepts() && g.primary == nil && g.backfill == nil
	switch {
	case isFree && g.free == 0:
		g.free = s.now
		g.vacancies++
		s.nextClaim(g)
	case !isFree:
		s.notFree(g, reason)
	}
}

func (s *simulation) notFree(g *gpu, reason string) {
	if g.free > 0 && s.now > g.free && s.see.free != nil {
		s.see.free(g, g.free, s.now, reason)
	}
	g.free = 0
}

func (s *simulation) nextClaim(g *gpu) {
	var wait int64
	switch x := s.rnd.Float64(); {
	case x < 0.55:
		wait = s.between(20*second, 12*minute)
	case x < 0.85:
		wait = s.exponential(50 * minute)
	default:
		wait = s.exponential(5 * hour)
	}
	vacancy := g.vacancies
	s.after(wait+second, func() {
		if g.free > 0 && g.vacancies == vacancy {
			s.startBackfill(g)
		}
	})
}

func (s *simulation) startBackfill(g *gpu) {
	h := g.host
	gpus := []*gpu{g}
	for _, other := range h.gpus {
		if other != g && other.free > 0 {
			gpus = append(gpus, other)
		}
	}
	var j *job
	if s.rnd.Float64() < 0.8 {
		for i := range min(len(s.waiting), 40) {
			if s.waiting[i].gpus <= len(gpus) {
				j = s.waiting[i]
				s.waiting = slices.Delete(s.waiting, i, i+1)
				break
			}
		}
	}
	if j == nil {
		j = s.newJob(nil, s.jobSize(len(gpus)))
	}
	gpus = gpus[:j.gpus]
	r := s.newRun(h, j, gpus, &h.backfill)
	for _, g := range gpus {
		g.backfill = r
		s.settle(g, "claimed")
	}
}

// --- jobs and runs ---

func (s *simulation) jobSize(most int) int {
	size := 1
	switch x := s.rnd.Float64(); {
	case x > 0.99:
		size = 8
	case x > 0.92:
		size = 4
	case x > 0.89:
		size = 3
	case x > 0.72:
		size = 2
	}
	return min(size, most)
}

// newJob is a job that a user queued some time ago; owner is nil for backfill jobs.
func (s *simulation) newJob(owner *host, gpus int) *job {
	median, spread, most := 1.4, 1.1, 36.0
	if owner != nil {
		median, spread, most = s.pool.options.OwnerHours, 1.2, 72
	}
	hours := min(median*math.Exp(spread*s.rnd.NormFloat64()), most)
	j := &job{gpus: gpus, owner: owner, status: idle, work: max(int64(hours*float64(hour)), s.cadence*11/10)}
	prompt := s.pool.options.Lending && owner != nil && owner.Ownership != pool.OpenCapacity
	if b := s.batch; b != nil && b.owner == owner && b.gpus == gpus && (!prompt || b.queued == s.now) &&
		s.rnd.IntN(3) > 0 {
		j.schedd, j.cluster, j.proc, j.queued, j.user = b.schedd, b.cluster, b.proc+1, b.queued, b.user
	} else {
		ap := s.rnd.IntN(len(s.pool.schedds))
		if prompt && !s.pool.polled(&s.pool.schedds[ap]) { // jobs that nobody knows of stand in no line
			ap = 0
		}
		s.cluster[ap]++
		j.schedd, j.cluster = &s.pool.schedds[ap], 1000000+s.cluster[ap]
		// Longer ago than clocks are wrong, so that no job seems to start before it was queued.
		if j.queued = s.now - 5*minute - s.exponential(hour); prompt {
			j.queued = s.now
		}
		if owner != nil {
			j.user = s.pool.ownersUser(owner.Machine, s.rnd)
		} else {
			j.user = s.pool.anyUser(s.rnd)
		}
	}
	s.batch = j
	if j.project = s.pool.projectOf(j.user); prompt {
		j.project = owner.Projects
	}
	j.id = fmt.Sprintf("%s#%d.%d#%d", j.schedd.Name, j.cluster, j.proc, j.queued/second+j.schedd.ClockAhead)
	if s.see.idle != nil {
		s.see.idle(j, j.queued)
	}
	return j
}

// newRun starts a job on free GPUs, and plans how the run ends if nothing comes between.
func (s *simulation) newRun(h *host, j *job, gpus []*gpu, slots *[]*run) *run {
	r := &run{job: j, host: h, gpus: gpus, number: len(j.runs) + 1, start: s.now, slot: 1, holdsNow: j.holds}
	for slices.ContainsFunc(*slots, func(other *run) bool { return other.slot == r.slot }) {
		r.slot++
	}
	r.trace = newTrace(s.rnd.Uint64(), r)
	r.hidden = s.rnd.Float64() < s.pool.options.MissingJobIDs
	*slots = append(*slots, r)
	j.runs = append(j.runs, r)
	j.status, j.entered = running, s.now
	if s.see.idleNoMore != nil {
		s.see.idleNoMore(j, s.now, IdleStarted)
	}

	side := r.side()
	length, reason := j.work, Completed
	if s.hold[side].draw(s.rnd) {
		reason = Held
	} else if s.rnd.Float64() < 0.04 {
		reason = Removed
	}
	if reason != Completed {
		length = int64(float64(length) * (0.1 + 0.9*s.rnd.Float64()))
	}
	if s.short[side].draw(s.rnd) {
		length = s.between(20*second, s.cadence*19/20)
	}
	if s.fails(r) {
		length, reason = s.between(5*second, 8*minute), Completed
	}
	s.after(length, func() {
		if !r.ended && r.reason == "" {
			s.endRun(r, reason)
		}
	})
	return r
}

// side is 1 for runs on backfill slots.
func (r *run) side() int {
	if r.job.owner == nil {
		return 1
	}
	return 0
}

// leave ends a run in d, unless it is leaving already.
func (s *simulation) leave(r *run, reason Reason, d int64) {
	if r.reason != "" {
		return
	}
	r.reason = reason
	s.after(d, func() {
		if !r.ended {
			s.endRun(r, reason)
		}
	})
}

func (s *simulation) endRun(r *run, reason Reason) {
	r.end, r.ended = s.now, true
	if r.reason == "" {
		r.reason = reason
	}
	h, j, side := r.host, r.job, r.side()
	same := func(other *run) bool { return other == r }
	if side == 1 {
		h.backfill = slices.DeleteFunc(h.backfill, same)
	} else {
		h.primary = slices.DeleteFunc(h.primary, same)
	}
	s.short[side].cast++
	s.hold[side].cast++
	if r.end-r.start < s.cadence {
		s.short[side].hits++
	}
	for _, g := range r.gpus {
		if side == 1 {
			g.backfill = nil
			g.completed = 0
			if r.reason == Completed {
				g.completed = s.now
			}
		} else {
			g.primary = nil
		}
		s.settle(g, "")
	}
	if side == 1 && r.reason == Completed {
		if s.follow.draw(s.rnd) {
			s.followUp(r.gpus[s.rnd.IntN(len(r.gpus))])
		}
		s.follow.cast++
	}
	if s.see.ended != nil {
		s.see.ended(r)
	}
	s.nextState(j, r)
	if side == 0 {
		s.after(s.between(5*second, 90*second), func() { s.serve(h) })
	}
}

// nextState is what becomes of a job after a run.
func (s *simulation) nextState(j *job, r *run) {
	switch r.reason {
	case Completed:
		s.gone(j, complete)
	case Removed:
		s.gone(j, removed)
	case Held:
		s.hold[r.side()].hits++
		j.status, j.lastState, j.entered = held, running, s.now
		j.holds++
		switch x := s.rnd.Float64(); {
		case x < 0.5:
			s.after(s.between(10*minute, 6*hour), func() { s.requeue(j) })
		case x < 0.6:
			s.after(s.between(30*minute, 24*hour), func() { s.gone(j, removed) })
		default:
			if s.see.left != nil {
				s.see.left(j)
			}
		}
	default:
		s.at(r.reported(), func() {
			s.requeue(j)
			if len(j.runs) >= 8 || s.rnd.Float64() < 0.02 { // its user loses patience
				n := len(j.runs)
				s.after(s.exponential(2*hour), func() {
					if j.status == idle && len(j.runs) == n {
						s.dequeue(j)
						s.gone(j, removed)
					}
				})
			}
		})
	}
}

// requeue lets a job wait for its next run.
func (s *simulation) requeue(j *job) {
	j.lastState, j.status, j.entered = j.status, idle, s.now
	if s.see.idle != nil {
		s.see.idle(j, s.now)
	}
	s.after(s.between(1*minute, 15*minute), func() {
		if j.status != idle {
			return
		}
		if h := j.owner; h != nil {
			h.queue = slices.Insert(h.queue, 0, j)
			s.serve(h)
		} else {
			s.waiting = append(s.waiting, j)
		}
	})
}

func (s *simulation) dequeue(j *job) {
	same := func(other *job) bool { return other == j }
	s.waiting = slices.DeleteFunc(s.waiting, same)
	if j.owner != nil {
		j.owner.queue = slices.DeleteFunc(j.owner.queue, same)
	}
}

// gone takes a job out of the queue for good.
func (s *simulation) gone(j *job, status int) {
	j.lastState, j.status, j.entered = j.status, status, s.now
	if s.see.idleNoMore != nil {
		s.see.idleNoMore(j, s.now, IdleRemoved)
	}
	if s.see.left != nil {
		s.see.left(j)
	}
}

// --- troubles ---

// troubles strike a machine at random times, perMonth times in 30 days.
func (s *simulation) troubles(h *host, perMonth float64, strike func(*host)) {
	if perMonth == 0 {
		return
	}
	s.after(1+s.exponential(int64(float64(30*24*hour)/perMonth)), func() {
		strike(h)
		s.troubles(h, perMonth, strike)
	})
}

// drain sends backfill jobs away; primary ones may finish within two hours.
func (s *simulation) drain(h *host) {
	s.during(h, &h.drained, s.between(2*hour, 24*hour), "blocked")
	for _, r := range h.backfill {
		s.leave(r, DrainedReason, s.between(1*second, 60*second))
	}
	for _, r := range h.primary {
		s.after(s.between(10*minute, 2*hour), func() {
			if !r.ended && r.reason == "" {
				s.endRun(r, DrainedReason)
			}
		})
	}
}

func (s *simulation) breakDown(h *host) {
	s.during(h, &h.down, s.between(20*minute, 24*hour), "down")
	for _, r := range slices.Concat(h.primary, h.backfill) {
		s.endRun(r, HostDown)
	}
}

func (s *simulation) prevent(h *host) {
	s.during(h, &h.prevented, s.between(2*hour, 24*hour), "blocked")
}

func (s *simulation) crowd(h *host) { s.during(h, &h.crowded, s.between(2*hour, 24*hour), "") }

// during keeps jobs from starting on a machine for a while.
func (s *simulation) during(h *host, count *int, d int64, reason string) {
	settle := func() {
		for _, g := range h.gpus {
			s.settle(g, reason)
		}
	}
	*count++
	settle()
	s.after(d, func() {
		*count--
		settle()
		s.serve(h)
	})
}
