package samplepool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"
)

// Reason says how a run really ended.
type Reason string

const (
	Completed Reason = "completed"
	// an owner's job claimed a GPU of a backfill run, seconds before the run's end
	EvictedByPrimary Reason = "evicted_by_primary"
	DrainedReason    Reason = "drained"   // the machine was drained
	Removed          Reason = "removed"   // by its user, while running
	Held             Reason = "held"      // put on hold while running
	HostDown         Reason = "host_down" // the machine went away
	Running          Reason = "running"   // still running at the pool's End
)

// Run is one execution attempt of a job, as it really was. Times are exact to the millisecond.
type Run struct {
	Machine     string
	GPUs        []string // ids
	Job         string   // GlobalJobId
	User        string   // user@domain, the slot's RemoteOwner
	Slot        string   // slot1_2@host, backfill2_1@host
	Backfill    bool     // on a backfill slot
	Number      int      // 1, 2, … of its job
	Start       time.Time
	End         time.Time // Running: the pool's End
	Reason      Reason
	SavedUntil  time.Time // the last checkpoint of its job in this run; zero if there is none
	HiddenJobID bool      // its rows carry no GlobalJobId
	Excluded    bool      // its machine is an excluded host
	Project     string    // of its job (ChtcProjects)
	ExitCode    int       // of a run that completed
	ExitSignal  int       // that ended the job; 0: none did
	PeakMiB     float64   // GPU memory that it used at most on one GPU; 0: it is not known

	Course Course
	Busy   time.Duration  // GPU time that it computed
	Idle   [][2]time.Time // stretches of at least 30 minutes in which less than 1 % of its GPUs computed
}

// Stretch is a time in which a GPU was truly free for backfill, on a machine with backfill slots that is not excluded.
type Stretch struct {
	Machine string
	GPU     string
	Start   time.Time // can lie before the pool's Start
	End     time.Time
	Reason  string // claimed, reclaimed, blocked (drained or prevented), down, window (the pool's End)
}

// Truth is what really happened between a pool's Start and End.
type Truth struct {
	Runs      []Run       // all that touch the pool's time, by end, then start
	Available []Stretch   // likewise
	Queues    []Idle      // times in the access points' queues, by beginning
	Snapshots []time.Time // UTC time of each collector run that wrote rows, ascending
}

// Truth is what really happened. Its only error is ctx's.
func (p *Pool) Truth(ctx context.Context) (*Truth, error) {
	truth := &Truth{Snapshots: slices.Clone(p.runs)}
	start := p.options.Start.UnixMilli()
	s := p.simulate(observer{
		ended: func(r *run) {
			if r.end < start {
				return
			}
			var saved time.Time
			if at := p.savedUntil(r); at > 0 {
				saved = moment(at)
			}
			truth.Runs = append(truth.Runs, Run{
				Machine: r.host.Name, GPUs: ids(r.gpus), Job: r.job.id, User: r.job.user, Slot: r.slotName(),
				Backfill: r.side() == 1,
				Number:   r.number, Start: moment(r.start), End: moment(r.end), Reason: r.reason, SavedUntil: saved,
				HiddenJobID: r.hidden, Excluded: r.host.Excluded, Project: r.job.project, ExitCode: r.failure.code,
				ExitSignal: r.failure.signal, PeakMiB: r.peak(),
				Course: r.trace.course, Busy: time.Duration(r.trace.busy(r.end) * float64(time.Millisecond)),
				Idle: r.trace.idle(r.end),
			})
		},
		free: func(g *gpu, from, to int64, reason string) {
			if to >= start && !g.host.Excluded {
				truth.Available = append(truth.Available, Stretch{g.host.Name, g.id, moment(from), moment(to), reason})
			}
		},
	})
	if err := s.advance(ctx, s.end); err != nil {
		return nil, err
	}
	s.finish()
	var err error
	if truth.Queues, err = p.Queues(ctx); err != nil {
		return nil, err
	}
	slices.SortStableFunc(truth.Runs, func(a, b Run) int { return cmp.Or(a.End.Compare(b.End), a.Start.Compare(b.Start)) })
	slices.SortStableFunc(truth.Available, func(a, b Stretch) int {
		return cmp.Or(a.End.Compare(b.End),
			a.Start.Compare(b.Start))
	})
	return truth, nil
}

func moment(t int64) time.Time { return time.UnixMilli(t).UTC() }

// WriteTruth writes the runs into dir: truth.jsonl, one per line.
func (p *Pool) WriteTruth(ctx context.Context, dir string) error {
	truth, err := p.Truth(ctx)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, r := range truth.Runs {
		saved := ""
		if !r.SavedUntil.IsZero() {
			saved = iso(r.SavedUntil)
		}
		if err := encoder.Encode(struct {
			Machine    string      `json:"machine"`
			GPUs       []string    `json:"gpus"`
			Job        string      `json:"job"`
			User       string      `json:"user"`
			Slot       string      `json:"slot"`
			Backfill   bool        `json:"backfill"`
			Run        int         `json:"run"`
			Start      string      `json:"start"`
			End        string      `json:"end"`
			StartSec   json.Number `json:"startSec"`
			EndSec     json.Number `json:"endSec"`
			Reason     Reason      `json:"reason"`
			Saved      string      `json:"savedUntil,omitempty"`
			GidHidden  bool        `json:"gidHidden"`
			Masked     bool        `json:"masked"`
			Project    string      `json:"project"`
			ExitCode   int         `json:"exitCode,omitempty"`
			ExitSignal int         `json:"exitSignal,omitempty"`
			PeakMiB    float64     `json:"peakMiB,omitempty"`
		}{
			r.Machine, r.GPUs, r.Job, r.User, r.Slot, r.Backfill, r.Number, iso(r.Start), iso(r.End), seconds(r.Start),
			seconds(r.End), r.Reason, saved, r.HiddenJobID, r.Excluded, r.Project, r.ExitCode, r.ExitSignal, r.PeakMiB,
		}); err != nil {
			return err
		}
	}
	return writeFile(dir, "truth.jsonl", lines.String())
}

func iso(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z") }

func seconds(t time.Time) json.Number {
	return json.Number(fmt.Sprintf("%d.%03d", t.Unix(), t.Nanosecond()/1e6))
}

// writeFile makes a file; one that exists is an error.
func writeFile(dir, name, text string) error {
	// #nosec G302 -- Grafana's user reads it
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("writing a sample pool: %w", err)
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// Course says how a run's job uses its GPUs.
type Course string

const (
	Steady  Course = "steady" // trains on all its GPUs, with pauses
	Dead    Course = "dead"   // like Steady up to some time, nothing from then on
	Sleeper Course = "sleep"  // never computes: at most 0.004 of its GPUs are busy
	OneGPU  Course = "one"    // computes on one of several GPUs
	Slow    Course = "slow"   // waits for its data all the time: about 0.3 of its GPUs are busy
)

// The share of the snapshots of runs without GPUsAverageUsage: the startd has not measured yet, or could not.
const (
	unreportedFirst = 0.15 // of first snapshots
	unreportedLater = 0.02 // of the others
	reportEvery     = 5 * minute
	shortestIdle    = 30 * minute // of Run.Idle
)

// trace is the activity of a run's GPUs. It is generated as far as needed, always the same way.
type trace struct {
	rnd    *rand.Rand
	course Course
	gpus   float64
	dies   int64 // Dead: since when it computes nothing
	phases []phase
}

// phase is a time in which a constant number of GPUs compute.
type phase struct {
	from, to int64
	rate     float64 // GPUs
	before   float64 // GPU-milliseconds of the phases before it
}

// newTrace chooses a course for a run.
func newTrace(seed uint64, r *run) *trace {
	t := &trace{rnd: rand.New(rand.NewPCG(seed, 0)), gpus: float64(len(r.gpus)), dies: math.MaxInt64}
	switch x := t.rnd.Float64(); {
	case x < 0.10:
		t.course = Sleeper
	case x < 0.27:
		t.course = Dead
		t.dies = r.start + int64(t.rnd.Float64()*float64(r.job.work))
	case x < 0.39:
		t.course = Slow
	case x < 0.60 && len(r.gpus) > 1:
		t.course = OneGPU
	default:
		t.course = Steady
	}
	t.phases = []phase{{from: r.start, to: r.start}}
	return t
}

// until makes phases up to a time.
func (t *trace) until(at int64) {
	for {
		last := t.phases[len(t.phases)-1]
		if last.to > at {
			return
		}
		pause := t.course != Slow && last.rate > 0 && t.rnd.IntN(4) == 0
		next := phase{from: last.to, to: last.to + t.length(pause),
			before: last.before + last.rate*float64(last.to-last.from)}
		if !pause {
			next.rate = t.rate()
		}
		switch {
		case next.from >= t.dies:
			next.rate = 0
		case next.to > t.dies:
			next.to = t.dies
		}
		t.phases = append(t.phases, next)
	}
}

// length draws how long a phase lasts: most pauses are short, one in eight is not.
func (t *trace) length(pause bool) int64 {
	median, spread := 35*minute, 0.7
	if pause {
		median, spread = 4*minute, 0.8
		if t.rnd.IntN(8) == 0 {
			median, spread = 60*minute, 0.6
		}
	}
	return second + int64(float64(median)*math.Exp(spread*t.rnd.NormFloat64()))
}

// rate draws how many GPUs compute.
func (t *trace) rate() float64 {
	x := t.rnd.Float64()
	switch t.course {
	case Sleeper:
		return t.gpus * max(0, 0.008*x-0.004)
	case OneGPU:
		return 0.8 + 0.2*x
	case Slow:
		return t.gpus * (0.15 + 0.3*x)
	}
	return t.gpus * (0.75 + 0.25*x)
}

// busy returns the GPU-milliseconds computed up to a time.
func (t *trace) busy(at int64) float64 {
	t.until(at)
	p := t.phases[sort.Search(len(t.phases), func(i int) bool { return t.phases[i].to > at })]
	return p.before + p.rate*float64(max(0, at-p.from))
}

// idle returns the stretches of at least 30 minutes up to the run's end in which less than 1 % of its GPUs computed.
func (t *trace) idle(end int64) (stretches [][2]time.Time) {
	t.until(end)
	from := int64(-1)
	for _, p := range t.phases {
		if p.rate < 0.01*t.gpus && p.from < end {
			if from < 0 {
				from = p.from
			}
			continue
		}
		if from >= 0 && min(p.from, end)-from >= shortestIdle {
			stretches = append(stretches, [2]time.Time{moment(from), moment(min(p.from, end))})
		}
		from = -1
	}
	if from >= 0 && end-from >= shortestIdle {
		stretches = append(stretches, [2]time.Time{moment(from), moment(end)})
	}
	return stretches
}

// averageUsage is GPUsAverageUsage as the startd reports it now: of the run up to its last report, which can be 300 s
// old; false before the first one.
func (r *run) averageUsage(now int64) (float64, bool) {
	if r.ended {
		now = min(now, r.end) // a row that was left over
	}
	report := now - (now+r.host.reports)%reportEvery
	if report <= r.start {
		return 0, false
	}
	return math.Round(r.trace.busy(report)/float64(report-r.start)*1e9) / 1e9, true
}

// reportUsage fills in GPUsAverageUsage of the rows from one on.
func (c *collector) reportUsage(from int, now int64) {
	for i := from; i < len(c.all); {
		r, first := c.runs[i], i
		for i++; i < len(c.all) && r != nil && c.runs[i] == r; i++ {
		}
		if r == nil {
			continue
		}
		missing := c.usage.Float64()
		if c.reported[r] && missing < unreportedLater || !c.reported[r] && missing < unreportedFirst {
			c.reported[r] = true
			continue
		}
		c.reported[r] = true
		value, known := r.averageUsage(now)
		for k := first; k < i; k++ {
			c.all[k].AverageUsage, c.all[k].UsageReported = value, known
		}
	}
}

// forgetEnded keeps the runs that rows were written of from growing without bounds.
func (c *collector) forgetEnded() {
	for r := range c.reported {
		if r.ended {
			delete(c.reported, r)
		}
	}
}

// failure is how a job failed in a run that completed: by an exit code, or by a signal; zero: it did not.
type failure struct{ code, signal int }

// fails draws whether a run fails soon after its start: by its machine, by a user whose jobs always do, or by its job.
func (s *simulation) fails(r *run) bool {
	o := s.pool.options
	if o.Failures == 0 && o.BadMachine == 0 && o.BadUser == 0 {
		return false
	}
	own := o.Failures * [...]float64{0, 0.5, 1, 2.5}[draw(r.job.user+"bugs", 4)]
	for _, f := range []struct {
		share float64
		failure
	}{
		{s.share(o.BadMachine, r.host.Machine == &s.pool.machines[2]), failure{signal: 7}},
		{s.share(o.BadUser, strings.HasPrefix(r.job.user, "user003@")), failure{code: 2}},
		{own, failure{code: 1}},
	} {
		if s.bugs.Float64() < f.share && r.failure == (failure{}) {
			r.failure = f.failure
		}
	}
	return r.failure != failure{}
}

func (s *simulation) share(of float64, applies bool) float64 {
	if !applies {
		return 0
	}
	return of
}

// peak is the GPU memory in MiB that a run used at most on one GPU; 0: it was too short to be measured. All jobs of a
// cluster need about as much, often much less than the GPU has; those of some users reserve nearly all.
func (r *run) peak() float64 {
	if r.end-r.start < 5*minute {
		return 0
	}
	has := float64(r.host.MemoryMB)
	if draw(r.job.user+"reserves", 6) == 0 {
		return math.Floor(0.9 * has)
	}
	needs := [...]float64{1.5, 3, 3, 6, 7, 11, 14, 20, 22, 34, 45, 70}[draw(r.job.schedd.Name+r.job.user, 12)]
	jitter := 0.9 + 0.1*float64(draw(r.job.id, 100))/100
	return math.Floor(min(1024*needs*jitter, 0.95*has))
}

// savesEvery is the time between checkpoints of a job on backfill, 0 if it saves none; all jobs of a cluster do alike.
func (p *Pool) savesEvery(j *job) int64 {
	cluster := fmt.Sprint("saves", j.schedd.Name, j.cluster)
	if j.owner != nil || draw(cluster, 1000) >= int(1000*p.options.Checkpoints) {
		return 0
	}
	return [...]int64{hour / 2, hour, 2 * hour, 4 * hour}[draw(cluster+"every", 4)]
}

// savedUntil is when a run's job last saved a checkpoint during it, 0 if it did not.
func (p *Pool) savedUntil(r *run) int64 {
	every := p.savesEvery(r.job)
	if every == 0 || r.end < r.start+every {
		return 0
	}
	return r.end - (r.end-r.start)%every
}
