package timeline

import "github.com/chtc/gpureports/pkg/pool"

// Jobs are the jobs of a day's claims that give a state, by status and side.
type Jobs [][2]Job

// Jobs assigns the jobs of the day's claims. They are not kept.
func (d *Day) Jobs() Jobs {
	all, jobs := make(Jobs, len(d.statuses)), d.jobs
	for s, rows := range d.statuses {
		for side, row := range [2]uint32{rows.Primary, rows.Backfill} {
			if d.rows[row].State == pool.Claimed {
				all[s][side], jobs = jobs[0], jobs[1:]
			}
		}
	}
	return all
}

// Of returns the job of a side's row of a status, none if it is not Claimed.
func (j Jobs) Of(status uint32, side pool.Side) Job { return j[status][side] }

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

// Queued is when the job was queued, by its access point's clock (htcondor.md: qdate); false: its id has another form.
func (j Job) Queued() (t pool.Micros, ok bool) {
	return pool.Micros(j.QDate) * pool.Second, j.QDate != 0 && j.Cluster != raw
}
