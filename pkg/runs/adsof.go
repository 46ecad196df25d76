package runs

import (
	"time"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// Ads are the job ads that are known of an observation's jobs.
type Ads struct {
	jobs     [][]jobs.Ad          // of each job of the observation, by number
	machines [][]jobs.Ad          // of each machine, for runs without a GlobalJobId
	epochs   [][]jobs.Ad          // of each machine: short runs, of whatever job
	others   map[string][]jobs.Ad // of jobs whose epoch ads do not say how a run ended
	records  records
	clocks   clocks
	holds    []func() bool // of the lookups; one is nil if it must be made again
}

// records are all ads, read once: of each job, and of each machine.
type records struct{ jobs, machines, epochs [][]record }

// Of returns the ads of a run's job, in the order of their sources; none for a run without a GlobalJobId. They are
// shared: read only.
func (a *Ads) Of(o *Observed, machine, run int) []jobs.Ad {
	job := o.jobs().of[machine][run]
	if job < 0 {
		return nil
	}
	return a.jobs[job]
}

// Date returns a date of one of the ads, corrected by the error of its access point's clock; 0 = not stored.
func (a *Ads) Date(ad *jobs.Ad, date time.Time) pool.Micros {
	r := recordOf(ad)
	r.correct(a.clocks[ad.AccessPoint])
	return r.at(date)
}

// read reads the ads, each by its access point's clock.
func (a *Ads) read() {
	of := func(lists [][]jobs.Ad) [][]record {
		n := 0
		for _, list := range lists {
			n += len(list)
		}
		found, all := make([][]record, len(lists)), make([]record, 0, n)
		for i, list := range lists {
			first := len(all)
			for k := range list {
				all = append(all, recordOf(&list[k]))
			}
			found[i] = all[first:len(all):len(all)]
		}
		return found
	}
	a.records = records{of(a.jobs), of(a.machines), of(a.epochs)}
}

// correct takes the clocks' errors out of the records' times.
func (a *Ads) correct() {
	for _, lists := range [...][][]record{a.records.jobs, a.records.machines, a.records.epochs} {
		for _, list := range lists {
			for i := range list {
				if days := a.clocks[list[i].AccessPoint]; days != nil {
					list[i].correct(days)
				}
			}
		}
	}
}

// Holds reports whether asking the source again would change nothing.
func (a *Ads) Holds() bool {
	for _, holds := range a.holds {
		if holds == nil || !holds() {
			return false
		}
	}
	return true
}

// OnlyClocks is what the ads reveal about clocks, without them; nil of nil.
func (a *Ads) OnlyClocks() *Ads {
	if a == nil {
		return nil
	}
	return &Ads{clocks: a.clocks, holds: a.holds}
}
