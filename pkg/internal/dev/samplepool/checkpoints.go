package samplepool

import "fmt"

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
