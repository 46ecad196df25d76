package runs

import (
	"time"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

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
	r := recordOf(ad, a.clocks)
	return r.at(date)
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
