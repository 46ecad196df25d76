package runs

import (
	"context"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// ObserveAfter observes as Look does after an earlier observation; again is how many machines take over some of it.
func ObserveAfter(ctx context.Context, v *timeline.View, reach pool.Window, lists pool.Lists, earlier *Observed) (
	o *Observed, again int, err error) {
	if o, err = observe(ctx, v, reach, lists, earlier); err != nil || o.First == o.End {
		return o, 0, err
	}
	rests, err := o.rests(ctx, earlier)
	for _, r := range rests {
		if r.before != nil {
			again++
		}
	}
	return o, again, err
}

// Jobs returns each machine's runs with their jobs as the index has them, and the claim's run before; and of all jobs
// that have runs the newest run on each side.
func (o *Observed) Jobs() (jobs [][]timeline.Job, before [][]sighting, newest map[timeline.Job][2]sighting) {
	x := o.jobs()
	for _, of := range x.of {
		var list []timeline.Job
		for _, number := range of {
			if number < 0 {
				list = append(list, timeline.Job{})
			} else {
				list = append(list, x.jobs[number])
			}
		}
		jobs = append(jobs, list)
	}
	newest = map[timeline.Job][2]sighting{}
	for number, job := range x.jobs {
		newest[job] = [2]sighting{x.newest[0][number], x.newest[1][number]}
	}
	return jobs, x.before, newest
}
