package samplepool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// How a time in the queue ended.
const (
	IdleStarted = "started"
	IdleRemoved = "removed"
	IdleHeld    = "held"
	IdleWaiting = "waiting" // at the pool's End
)

// Idle is a time in which a job was idle in the queue of its access point, as it really was.
type Idle struct {
	Job       string // GlobalJobId
	Schedd    string
	Polled    bool // its access point is polled
	User      string
	Project   string
	GPUs      int
	GPUMemory int // MiB of each GPU that the job asks for; 0: any
	Stretch   int // 1: before its first run
	Begin     time.Time
	End       time.Time
	How       string
	QDate     int64 // Unix seconds of the access point's clock
	// Own is what the GPUs did that give priority to its project, by methodology section 18: at the snapshot before its
	// beginning. OwnThen is what they did at the moment itself. Only of a pool that lends.
	Own, OwnThen string
}

// queue watches jobs become idle and leave that state.
type queue struct {
	pool *Pool
	sim  *simulation
	open map[*job]*Idle

	stands map[*host]stand // at the newest snapshot; nil before the first
	begun  map[string]int  // GPUs of the jobs that became idle since then, by their project
	all    []Idle
}

// idle is called when a job is idle from a time onward.
func (q *queue) idle(j *job, from int64) {
	owner, _, _ := strings.Cut(j.user, "@")
	i := &Idle{
		Job: j.id, Schedd: j.schedd.Name, Polled: q.pool.polled(j.schedd), User: owner, Project: j.project,
		GPUs: j.gpus, Stretch: len(j.runs) + 1,
		Begin: moment(from), QDate: j.stamp(j.queued),
	}
	if q.pool.options.Lending {
		q.owns(i, j)
	}
	q.open[j] = i
}

// stand is what the GPUs of a host do.
type stand struct {
	here            bool // it has rows
	free, available int  // free, and free or held by backfill
}

func (h *host) stand() stand {
	s := stand{here: h.down == 0 && !h.Excluded}
	for _, g := range h.gpus {
		if g.primary != nil || h.drained > 0 || h.prevented > 0 {
			continue
		}
		if s.available++; g.backfill == nil {
			s.free++
		}
	}
	return s
}

// snapshot notes what GPUs do at a run of the collector.
func (q *queue) snapshot() {
	q.stands, q.begun = map[*host]stand{}, map[string]int{}
	for _, h := range q.sim.hosts {
		q.stands[h] = h.stand()
	}
}

// owns fills in what the GPUs with priority for a job's project did at the newest snapshot, beside those that jobs
// which became idle since then ask for, and what they do now, beside those that idle jobs of the project wait for.
func (q *queue) owns(i *Idle, j *job) {
	waiting := 0
	for other := range q.open {
		if other.project == j.project {
			waiting += other.gpus
		}
	}
	i.OwnThen = own(q.sim.hosts, j, waiting, (*host).stand)
	i.Own = "unknown"
	if q.stands != nil {
		i.Own = own(q.sim.hosts, j, q.begun[j.project], func(h *host) stand { return q.stands[h] })
		q.begun[j.project] += j.gpus
	}
}

func own(hosts []*host, j *job, ahead int, of func(*host) stand) string {
	var free, available, most, mostFree, mostAvailable int
	for _, h := range hosts {
		s := of(h)
		if j.project == "" || h.Projects != j.project || !s.here {
			continue
		}
		free, available = free+s.free, available+s.available
		most, mostFree, mostAvailable = max(most, len(h.gpus)), max(mostFree, s.free), max(mostAvailable, s.available)
	}
	switch {
	case most < j.gpus:
		return "none"
	case free >= ahead+j.gpus && mostFree >= j.gpus:
		return "free"
	case available >= ahead+j.gpus && mostAvailable >= j.gpus:
		return "backfill"
	}
	return "busy"
}

// over records that a job is no longer idle.
func (q *queue) over(j *job, at int64, how string) {
	if i := q.open[j]; i != nil {
		delete(q.open, j)
		i.GPUMemory, i.End, i.How = j.memory(), moment(at), how
		q.all = append(q.all, *i)
	}
}

// polled reports whether an access point is polled: all but the last one are.
func (p *Pool) polled(s *AccessPoint) bool { return s != &p.schedds[len(p.schedds)-1] }

// draw is a number that a text always gives, below n.
func draw(text string, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // a hash takes everything
	return int(h.Sum32() % uint32(n))
}

// guests are projects without machines.
var guests = []string{"Astro_Nine", "Econ_Ten", "Music_Eleven", "Math_Twelve", "Law_Thirteen"}

// projectOf is the project of a user's jobs, where it is not that of an owner's machine.
func (p *Pool) projectOf(user string) string {
	names := projects
	if p.options.Lending {
		names = guests
	}
	if draw(user, 8) == 0 {
		return ""
	}
	list := names[draw(user, len(names))]
	if draw(user, 5) == 0 {
		list += "," + names[draw(user+"+", len(names))]
	}
	return list
}

// memory is what each of the job's GPUs must have: never more than the machine has that it first ran on, or that it
// waits for.
func (j *job) memory() int {
	has := 0
	switch {
	case len(j.runs) > 0:
		has = j.runs[0].host.MemoryMB
	case j.owner != nil:
		has = j.owner.MemoryMB
	}
	asks := [...]int{0, 0, 0, 10000, 20000, 40000, 79000, 120000}[draw(fmt.Sprint(j.schedd.Name, j.cluster), 8)]
	if asks > has {
		return 0
	}
	return asks
}

// Queues are all times in which jobs were idle and that touch the pool's time, by beginning. Its only error is ctx's.
func (p *Pool) Queues(ctx context.Context) ([]Idle, error) {
	q := &queue{pool: p, open: map[*job]*Idle{}}
	q.sim = p.simulate(observer{idle: q.idle, idleNoMore: q.over})
	for _, at := range p.runs {
		if err := q.sim.advance(ctx, at.UnixMilli()); err != nil {
			return nil, err
		}
		if p.options.Lending {
			q.snapshot()
		}
	}
	if err := q.sim.advance(ctx, q.sim.end); err != nil {
		return nil, err
	}
	for j := range q.open {
		q.over(j, q.sim.end, IdleWaiting)
	}
	q.all = append(q.all, p.hopeless()...)
	q.all = slices.DeleteFunc(q.all, func(i Idle) bool {
		return i.End.Before(p.options.Start) ||
			i.Begin.After(p.options.End)
	})
	slices.SortFunc(q.all, func(a, b Idle) int {
		return cmp.Or(a.Begin.Compare(b.Begin), strings.Compare(a.Job, b.Job), cmp.Compare(a.Stretch, b.Stretch))
	})
	return q.all, nil
}

// hopeless are jobs that never run, because they ask for more than any machine has: their users remove them or put them
// on hold.
func (p *Pool) hopeless() (all []Idle) {
	rnd := p.random("hopeless")
	cluster := 5000000
	for at := p.options.Start.Add(-12 * time.Hour); ; {
		at = at.Add(time.Duration(rnd.ExpFloat64() * float64(14*time.Hour)))
		if !at.Before(p.options.End) {
			return all
		}
		cluster++
		schedd := &p.schedds[rnd.IntN(len(p.schedds))]
		user := p.users[skewed(rnd, len(p.users))]
		owner, _, _ := strings.Cut(user, "@")
		gpus := [...]int{1, 8, 16}[rnd.IntN(3)]
		memory := 0
		if gpus == 1 {
			memory = 200000
		}
		for proc := range 1 + rnd.IntN(12) {
			i := Idle{
				Schedd: schedd.Name, Polled: p.polled(schedd), User: owner, Project: p.projectOf(user), GPUs: gpus,
				GPUMemory: memory, Stretch: 1, Begin: at.Truncate(time.Millisecond),
				End: at.Add(time.Duration(rnd.ExpFloat64() * float64(8*time.Hour))).Truncate(time.Millisecond),
				Own: "none", OwnThen: "none",
				How:   [...]string{IdleRemoved, IdleRemoved, IdleHeld}[rnd.IntN(3)],
				QDate: at.Unix() + schedd.ClockAhead,
			}
			i.Job = fmt.Sprintf("%s#%d.%d#%d", schedd.Name, cluster, proc, i.QDate)
			if !i.End.Before(p.options.End) {
				i.End, i.How = p.options.End, IdleWaiting
			}
			all = append(all, i)
		}
	}
}

// Polls are the moments, in whole seconds, at which the access points were polled; with an outage of three hours in a
// pool that has any and lasts two days.
func (p *Pool) Polls() (polls []time.Time) {
	every := p.options.Polls
	if every == 0 {
		return nil
	}
	rnd := p.random("polls")
	length := p.options.End.Sub(p.options.Start)
	down := p.options.Start.Add(time.Duration((0.2 + 0.6*rnd.Float64()) * float64(length)))
	for tick := p.options.Start.Truncate(every); tick.Before(p.options.End); tick = tick.Add(every) {
		t := tick.Add(time.Duration(1+rnd.IntN(3)) * time.Second)
		if p.options.Outages > 0 && length >= 48*time.Hour && t.After(down) && t.Before(down.Add(3*time.Hour)) {
			continue
		}
		if !t.Before(p.options.Start) {
			polls = append(polls, t)
		}
	}
	return polls
}

// awayAtMost is how long a job may be away between two polls for its row to continue.
const awayAtMost = 5400 * time.Second

// idleRow is a row of job_pressure.
type idleRow struct {
	*Idle
	month       string // of the file
	first, last time.Time
}

// idleRows are the rows that the poller would have written, in its order.
func (p *Pool) idleRows(all []Idle) []*idleRow {
	polls := p.Polls()
	open := map[string]*idleRow{}
	var rows []*idleRow
	for i := range all {
		idle := &all[i]
		if !idle.Polled {
			continue
		}
		first, _ := slices.BinarySearchFunc(polls, idle.Begin, time.Time.Compare)
		for _, t := range polls[first:] {
			if !t.Before(idle.End) {
				break
			}
			month := t.In(p.zone).Format("2006-01")
			row := open[idle.Job]
			if row == nil || row.month != month || t.Sub(row.last) > awayAtMost {
				row = &idleRow{Idle: idle, month: month, first: t}
				open[idle.Job] = row
				rows = append(rows, row)
			}
			row.last = t
		}
	}
	slices.SortStableFunc(rows, func(a, b *idleRow) int { return a.first.Compare(b.first) })
	return rows
}

// WriteQueues writes job_pressure_YYYY-MM.db into dir, as the poller of the queues would have. A file that exists is an
// error.
func (p *Pool) WriteQueues(ctx context.Context, dir string) error {
	all, err := p.Queues(ctx)
	if err != nil {
		return err
	}
	rows := p.idleRows(all)
	for len(rows) > 0 {
		n := 0
		for n < len(rows) && rows[n].month == rows[0].month {
			n++
		}
		if err := writeIdleRows(ctx, dir, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func writeIdleRows(ctx context.Context, dir string, rows []*idleRow) (err error) {
	t, err := newTable(ctx, dir, "job_pressure_"+rows[0].month+".db",
		`CREATE TABLE job_pressure (GlobalJobId TEXT NOT NULL, ScheddName TEXT, Owner TEXT, RequestGPUs REAL, RequestCPUs REAL,
		RequestMemory REAL, RequestGPUMemory REAL, QDate INTEGER, ChtcProjects TEXT, first_seen INTEGER NOT NULL,
		last_seen INTEGER NOT NULL)`)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, t.close("CREATE INDEX idx_last_seen ON job_pressure (last_seen)",
			"CREATE INDEX idx_first_seen ON job_pressure (first_seen)"))
	}()
	for _, r := range rows {
		err := t.add(ctx, r.Job, r.Schedd, r.User, float64(r.GPUs), float64(cpusOfJob*r.GPUs), float64(memoryOfJob*r.GPUs),
			orNull(float64(r.GPUMemory), r.GPUMemory > 0), r.QDate, r.Project, r.first.Unix(), r.last.Unix())
		if err != nil {
			return err
		}
	}
	return nil
}
