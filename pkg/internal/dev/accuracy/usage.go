package accuracy

import (
	"context"
	"time"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/jobs"
)

// Usage is how close the kind utilization comes to what runs really did (methodology section 13): of runs on both sides
// that began and ended in the window.
type Usage struct {
	Utilization Spread // points between reported and true utilization of runs with one measured GPU-hour or more
	IdleMinutes Spread // minutes between reported and true idle time of runs that have any, reported or true
	LongIdle    int    // runs that were idle for 2 h or more
	LongTold    int    // runs that are reported to be
	LongRight   int    // both
}

// longIdle is the idle time from which a run deserves attention.
const longIdle = 2 * time.Hour

// Precision is the share of the runs reported to be idle for 2 h or more that were.
func (u *Usage) Precision() float64 { return Share{u.LongRight, u.LongTold}.Of() }

// Recall is the share of the runs idle for 2 h or more that are reported to be.
func (u *Usage) Recall() float64 { return Share{u.LongRight, u.LongIdle}.Of() }

func (u *Usage) finish() {
	u.Utilization.finish()
	u.IdleMinutes.finish()
}

// judge fails figures that are not reached: with job ads.
func (u *Usage) judge(cadence time.Duration, fail func(what string, is, must float64, bad bool)) {
	minutes, recall := 20.0, 0.90
	if cadence <= 5*time.Minute {
		minutes, recall = 5, 0.95
	}
	const points, precision = 0.5, 0.98
	fail("median error of utilization in points", u.Utilization.Median, points, !(u.Utilization.Median <= points))
	fail("median error of a run's idle time in minutes", u.IdleMinutes.Median, minutes, !(u.IdleMinutes.Median <= minutes))
	fail("precision of idle for 2 h or more", u.Precision(), precision, !(u.Precision() >= precision))
	fail("recall of idle for 2 h or more", u.Recall(), recall, !(u.Recall() >= recall))
}

// measureUsage queries the usage of runs and compares it with the true one.
func (p *opened) measureUsage(ctx context.Context, source jobs.Source, truth *samplepool.Truth, u *Usage) error {
	byPlace := map[string][]*samplepool.Run{} // by job and machine
	for i := range truth.Runs {
		if r := &truth.Runs[i]; !r.Excluded && p.inside(r.Start) && p.inside(r.End) && r.Reason != samplepool.Running {
			byPlace[r.Job+" "+r.Machine] = append(byPlace[r.Job+" "+r.Machine], r)
		}
	}
	rows, err := p.ask(ctx, source, p.window, `{"queryType": "utilization", "view": "runs", "limit": 50000}`)
	if err != nil {
		return err
	}
	for _, row := range rows {
		start, end := row["start"].(time.Time), row["end"].(time.Time)
		if run := nearestRun(byPlace[row["job"].(string)+" "+row["machine"].(string)], start, end); run != nil {
			percent, measured := row["utilizationPercent"].(float64)
			idle, _ := row["idleHours"].(float64)
			u.compare(run, percent, measured, time.Duration(idle*float64(time.Hour)))
		}
	}
	return nil
}

// nearestRun returns the true run that has most time in common with a reported one, nil without any.
func nearestRun(all []*samplepool.Run, start, end time.Time) (best *samplepool.Run) {
	most := time.Duration(0)
	for _, r := range all {
		from, to := r.Start, r.End
		if start.After(from) {
			from = start
		}
		if end.Before(to) {
			to = end
		}
		if common := to.Sub(from); common > most {
			best, most = r, common
		}
	}
	return best
}

// compare adds the reported usage of one run.
func (u *Usage) compare(run *samplepool.Run, percent float64, measured bool, told time.Duration) {
	if measured {
		whole := run.End.Sub(run.Start).Seconds() * float64(len(run.GPUs))
		u.Utilization.add(percent - 100*run.Busy.Seconds()/whole)
	}
	var idle time.Duration
	for _, s := range run.Idle {
		idle += s[1].Sub(s[0])
	}
	if idle > 0 || told > 0 {
		u.IdleMinutes.add((told - idle).Minutes())
	}
	if idle >= longIdle {
		u.LongIdle++
	}
	if told >= longIdle {
		u.LongTold++
	}
	if idle >= longIdle && told >= longIdle {
		u.LongRight++
	}
}
