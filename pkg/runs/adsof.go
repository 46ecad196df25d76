package runs

import "github.com/chtc/gpureports/pkg/jobs"

// Of returns the ads of a run's job, in the order of their sources; none for a run without a GlobalJobId. They are
// shared: read only.
func (a *Ads) Of(o *Observed, machine, run int) []jobs.Ad {
	job := o.jobs().of[machine][run]
	if job < 0 {
		return nil
	}
	return a.jobs[job]
}
