package accuracy

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// troubledKinds are pools with owners that lend, and with jobs and machines that fail (methodology sections 17 to 20).
var troubledKinds = []struct {
	name    string
	options func() samplepool.Options
}{
	{"no bad machine", troubled(samplepool.RightClocks, 0)},
	{"no bad machine, hard", troubled(samplepool.Hard, 0)},
	{"one fails a fifth of its jobs", troubled(samplepool.RightClocks, 0.2)},
	{"one fails half of its jobs", troubled(samplepool.RightClocks, 0.5)},
}

// Pools of the questions are smaller than the others, because there are ten of each.
const troubledMachines, troubledDays = 20, 8

func troubled(of func() samplepool.Options, bad float64) func() samplepool.Options {
	return func() samplepool.Options {
		o := of().Troubled()
		o.BadMachine, o.Machines, o.End = bad, troubledMachines, o.Start.AddDate(0, 0, troubledDays)
		return o
	}
}

// Questions is how right the answers about owners and failing machines are for the pools of one kind, with epoch ads.
type Questions struct {
	Kind  string
	Pools int

	// GPU hours whose project is known by the job or by the user, and those of them for which it is right.
	ByJob, ByUser hoursOf
	Hours         float64 // all
	Waits         map[string]*promise
	Daily, Weekly alarms
	Peaks         hoursOf // GPU hours by class of used memory: told, and of these the right ones
}

// promise is what withinPercent says about the waits of one class of own GPUs, and how many really began in time.
type promise struct {
	told, toldWaits   float64 // percent · waits, and waits
	inTime, realWaits float64 // by the GPUs at the snapshot before the wait, as in the answers
	then              hoursOf // waits by the GPUs at the moment itself, and those in time
}

// Told and Really are the shares in percent.
func (p *promise) Told() float64 { return p.told / p.toldWaits }

// Really is the share of the true waits.
func (p *promise) Really() float64 { return 100 * p.inTime / p.realWaits }

// alarms counts looks at a pool's machines of one length.
type alarms struct {
	False Share // looks with a suspect that is a good machine
	Found Share // looks with the bad machine among the suspects
}

// MeasureQuestions makes the pools up and asks. Errors: ctx's, those of the file system, and bugs.
func MeasureQuestions(ctx context.Context, o Options) ([]Questions, error) {
	all := make([]Questions, len(troubledKinds))
	var mu sync.Mutex
	group, ctx := parallel.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, kind := range troubledKinds {
		all[i] = Questions{Kind: kind.name, Waits: map[string]*promise{}}
		for seed := range o.Troubled {
			group.Go(func() error {
				one := Questions{Waits: map[string]*promise{}}
				if err := one.measurePool(ctx, o.pool(kind.options(), seed+1, 15*time.Minute)); err != nil {
					return fmt.Errorf("asking about the pool of seed %d, %s: %w", seed+1, kind.name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				all[i].add(&one)
				return nil
			})
		}
	}
	return all, group.Wait()
}

func (q *Questions) add(one *Questions) {
	q.Pools++
	q.ByJob, q.ByUser, q.Peaks = q.ByJob.plus(one.ByJob), q.ByUser.plus(one.ByUser), q.Peaks.plus(one.Peaks)
	q.Hours += one.Hours
	for class, p := range one.Waits {
		of := q.promise(class)
		of.told, of.toldWaits = of.told+p.told, of.toldWaits+p.toldWaits
		of.inTime, of.realWaits = of.inTime+p.inTime, of.realWaits+p.realWaits
		of.then = of.then.plus(p.then)
	}
	for _, pair := range [][2]*alarms{{&q.Daily, &one.Daily}, {&q.Weekly, &one.Weekly}} {
		pair[0].False, pair[0].Found = pair[0].False.plus(pair[1].False), pair[0].Found.plus(pair[1].Found)
	}
}

func (h hoursOf) plus(g hoursOf) hoursOf { return hoursOf{h.told + g.told, h.really + g.really} }

func (s Share) plus(t Share) Share { return Share{s.Some + t.Some, s.All + t.All} }

func (q *Questions) promise(class string) *promise {
	if q.Waits[class] == nil {
		q.Waits[class] = &promise{}
	}
	return q.Waits[class]
}

func (q *Questions) measurePool(ctx context.Context, options samplepool.Options) error {
	return inPool(ctx, options, func(made *samplepool.Pool, p *opened, truth *samplepool.Truth) error {
		ads, err := jobstest.OfPool(ctx, made, func(a *samplepool.Ad) bool { return a.Epoch })
		if err != nil {
			return err
		}
		bad := ""
		if options.BadMachine > 0 {
			bad = made.Machines()[2].Name
		}
		q.guarantee(ctx, p, ads, truth)
		q.peaks(ctx, p, ads, truth)
		q.Daily.look(ctx, p, ads, pool.Day, bad)
		q.Weekly.look(ctx, p, ads, 7*pool.Day, bad)
		return cmp.Or(q.attribution(ctx, p, truth), p.err)
	})
}

// hoursIn are the GPU hours of a run in the window.
func (p *opened) hoursIn(r *samplepool.Run) float64 {
	from, to := max(r.Start.UnixMicro(), p.window.From), min(r.End.UnixMicro(), p.window.To)
	return pool.Hours(max(0, to-from)) * float64(len(r.GPUs))
}

// attribution compares the projects of jobs with the true ones, run by run.
func (q *Questions) attribution(ctx context.Context, p *opened, truth *samplepool.Truth) error {
	rows, err := p.stores.Queues.Load(ctx, p.window)
	if err != nil {
		return err
	}
	projects, err := p.stores.Projects(ctx, rows, p.window)
	if err != nil {
		return err
	}
	names := p.stores.Timeline.Names
	sorted := func(text string) []string { return slices.Sorted(slices.Values(pool.Projects(text))) }
	for i := range truth.Runs {
		r := &truth.Runs[i]
		hours := p.hoursIn(r)
		if r.Excluded || hours == 0 {
			continue
		}
		var job timeline.Job
		if !r.HiddenJobID {
			job = names.Job(r.Job)
		}
		q.Hours += hours
		list, how := projects.Of(job, r.User)
		of := []*hoursOf{&q.ByJob, &q.ByUser, nil}[how]
		if of == nil {
			continue
		}
		if of.told += hours; slices.Equal(sorted(names.Text(list)), sorted(r.Project)) {
			of.really += hours
		}
	}
	return nil
}

// inTime is the time of withinPercent.
const inTime = 10 * time.Minute

// unfinished is the time before the newest data in which many jobs have no ad yet, because they still run.
const unfinished = 48 * time.Hour

// guarantee compares withinPercent by own GPUs with the waits as they were, at polled access points.
func (q *Questions) guarantee(ctx context.Context, p *opened, ads jobs.Source, truth *samplepool.Truth) {
	w := p.window
	w.To -= unfinished.Microseconds()
	for _, row := range p.ask(ctx, ads, w, `{"queryType": "demand", "view": "summary", "groupBy": ["ownGpus"],
		"metrics": ["waits", "withinPercent"], "totals": false}`) {
		percent, known := row["withinPercent"].(float64)
		waits, _ := row["waits"].(float64)
		if of := q.promise(row["ownGpus"].(string)); known {
			of.told, of.toldWaits = of.told+percent*waits, of.toldWaits+waits
		}
	}
	for i := range truth.Queues {
		wait := &truth.Queues[i]
		length := wait.End.Sub(wait.Begin)
		if !wait.Polled || !w.Contains(wait.Begin.UnixMicro()) || length < inTime && wait.How != samplepool.IdleStarted {
			continue // it left before, or the pool's time ended: it says nothing
		}
		of, then := q.promise(wait.Own), q.promise(wait.OwnThen)
		of.realWaits++
		then.then.told++
		if length <= inTime {
			of.inTime++
			then.then.really++
		}
	}
}

// peaks compares the GPU hours of each class of used memory with the true ones.
func (q *Questions) peaks(ctx context.Context, p *opened, ads jobs.Source, truth *samplepool.Truth) {
	really := map[string]float64{}
	for i := range truth.Runs {
		if r := &truth.Runs[i]; !r.Excluded && r.PeakMiB > 0 {
			really[query.UsedMemories[query.UsedMemory(r.PeakMiB)]] += p.hoursIn(r)
		}
	}
	for _, row := range p.ask(ctx, ads, p.window, `{"queryType": "utilization", "view": "summary",
		"groupBy": ["usedMemory"], "metrics": ["heldGpuHours", "runs"], "totals": false}`) {
		class, hours := row["usedMemory"].(string), row["heldGpuHours"].(float64)
		if class != query.Unknown {
			q.Peaks.told += hours
			q.Peaks.really += min(hours, really[class])
		}
	}
}

// look asks about the failures of each whole stretch of a length in the window. bad is the machine that kills jobs, ""
// without one.
func (a *alarms) look(ctx context.Context, p *opened, ads jobs.Source, length pool.Micros, bad string) {
	for to := p.window.To; to-length >= p.window.From; to -= length {
		rows := p.ask(ctx, ads, pool.Window{From: to - length, To: to - 1},
			`{"queryType": "utilization", "view": "failures", "metrics": ["suspect"]}`)
		wrong, found := 0, 0
		for _, row := range rows {
			switch {
			case row["suspect"] != 1.0:
			case row["machine"] == bad:
				found = 1
			default:
				wrong = 1
			}
		}
		a.False = a.False.plus(Share{wrong, 1})
		if bad != "" {
			a.Found = a.Found.plus(Share{found, 1})
		}
	}
}

// QuestionFailures lists the required figures that are not reached.
func QuestionFailures(all []Questions) (failures []string) {
	for i := range all {
		q := &all[i]
		fail := func(what string, is, must float64, bad bool) {
			if bad {
				failures = append(failures, fmt.Sprintf("%s: %s is %.4g, required is %.4g", q.Kind, what, is, must))
			}
		}
		right := 100 * q.ByJob.really / q.ByJob.told
		fail("percent of hours by job with the right project", right, 99, !(right >= 99))
		for _, class := range []string{"free", "backfill"} {
			off := math.Abs(q.promise(class).Told() - q.promise(class).Really())
			fail("error of withinPercent in points, "+class, off, 3, !(off <= 3))
		}
		wrong := 100 * q.Daily.False.Of()
		fail("percent of days with a false alarm", wrong, 1, !(wrong <= 1))
	}
	return failures
}

const askedHead = `
## Owners and failing machines

%d pools of each kind with epoch ads, %d machines over %d days, a snapshot every 15 min and a poll every 30 min. Each
owner's machine has a project of its own, and its jobs are queued when they are wanted; other jobs have projects without
machines. Some users' jobs fail more often than others', those of one user most of the time and everywhere.

- **By job**, **by user**: the share of the GPU hours whose project is known so, and of these hours the share for which
  it is right.
- **In 10 min**: the waits that really began so soon, in percent, by what the own GPUs did at the snapshot before the
  wait's beginning, and withinPercent beside it: of those that began two days before the newest data or earlier, because
  jobs that still run have no ad, so that their short waits are not known. **At its moment**: the same by what the GPUs
  did at the moment of its beginning, which no data tell.
- **False alarms**: days and weeks in which a good machine is ` + "`suspect`" + `; **found**: those in which the bad one is.
- **Memory**: the GPU hours with a known peak that are in the right class of ` + "`usedMemory`" + `.

| Pools | By job | Right | By user | Right | Memory |
|---|---:|---:|---:|---:|---:|
`

// questionTables writes the tables of the questions.
func questionTables(all []Questions, o Options) string {
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, askedHead, o.Troubled, cmp.Or(o.Machines, troubledMachines), cmp.Or(o.Days, troubledDays))
	percent := func(some, all float64) string { return figure(100*some/all, 1) + " %" }
	for i := range all {
		q := &all[i]
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", q.Kind, percent(q.ByJob.told, q.Hours),
			percent(q.ByJob.really, q.ByJob.told), percent(q.ByUser.told, q.Hours),
			percent(q.ByUser.really, q.ByUser.told), percent(q.Peaks.really, q.Peaks.told))
	}
	b.WriteString("\n| Pools | Own GPUs | Waits | In 10 min, % | withinPercent | At its moment, % " +
		"|\n|---|---|---:|---:|---:|---:|\n")
	for i := range all {
		for _, class := range query.OwnGPUs[:3] {
			p := all[i].promise(class)
			fmt.Fprintf(&b, "| %s | %s | %.0f | %s | %s | %s |\n", all[i].Kind, class, p.realWaits, figure(p.Really(), 1),
				figure(p.Told(), 1), figure(100*p.then.really/p.then.told, 1))
		}
	}
	b.WriteString("\n| Pools | Days | False alarms | Found | Weeks | False alarms | Found |\n" +
		"|---|---:|---:|---:|---:|---:|---:|\n")
	share := func(s Share) string {
		if s.All == 0 {
			return "–"
		}
		return figure(100*s.Of(), 1) + " %"
	}
	for i := range all {
		d, w := &all[i].Daily, &all[i].Weekly
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %d | %s | %s |\n", all[i].Kind, d.False.All, share(d.False), share(d.Found),
			w.False.All, share(w.False), share(w.Found))
	}
	return b.String()
}
