package timeline

import "github.com/chtc/gpureports/pkg/pool"

// Claims calls look with the job of each claim in the window, at each snapshot from which on a GPU's status stays the
// same: at least at the first snapshot of each UTC day that shows the job.
func (v *View) Claims(w pool.Window, look func(t pool.Micros, job Job)) {
	for _, d := range v.Days {
		if len(d.Times) == 0 || d.Times[0] > w.To || d.Times[len(d.Times)-1] < w.From {
			continue
		}
		jobs := d.Jobs()
		for i := range d.GPUs() {
			first, statuses := d.Spans(i)
			for k, number := range statuses {
				t := d.Times[first[k]]
				if !w.Contains(t) {
					continue
				}
				for _, side := range []pool.Side{pool.Primary, pool.Backfill} {
					if job := jobs.Of(number, side); !job.IsNone() {
						look(t, job)
					}
				}
				for _, claim := range d.claims(number) {
					if !claim.Job.IsNone() {
						look(t, claim.Job)
					}
				}
			}
		}
	}
}

// Queued is when the job was put into its queue, by its access point's clock (htcondor.md: qdate); ok is false for a
// GlobalJobId of another form.
func (j Job) Queued() (t pool.Micros, ok bool) {
	return pool.Micros(j.QDate) * pool.Second, j.QDate != 0 && j.Cluster != raw
}
