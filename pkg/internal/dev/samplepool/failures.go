package samplepool

import (
	"math"
	"strings"
)

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
