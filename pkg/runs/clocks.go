package runs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// clockDay is an access point's clock on a UTC day.
type clockDay struct {
	AccessPoint string
	Day         int32 // since 1970-01-01
}

// Clock is how wrong an access point's clock was on a UTC day, by the runs that snapshots show (methodology section 9).
type Clock struct {
	clockDay
	Error       pool.Micros // how far it is ahead of the collector's; 0 when that is not certain
	Agree       int         // constraints that the error fulfils
	Constraints int
}

const (
	// clockDays are the days before and after one with too few constraints whose constraints count as well.
	clockDays = 3
	// enoughConstraints are as many as a correction needs.
	enoughConstraints = 20
	// nearStart and nearEnd are how far a run's ad may be off its snapshots to be a constraint.
	nearStart, nearEnd = 30 * pool.Minute, pool.Hour
)

// ClocksIn returns the errors of the access points' clocks on the UTC days of a window, by access point and day.
func (a *Ads) ClocksIn(w pool.Window) (found []Clock) {
	for at, c := range a.clocks.of {
		if at.Day >= pool.DayOf(w.From) && at.Day <= pool.DayOf(w.To) && c.Constraints > 0 {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b Clock) int {
		return cmp.Or(cmp.Compare(a.AccessPoint, b.AccessPoint), cmp.Compare(a.Day, b.Day))
	})
	return found
}

// ClockError is the largest absolute error of the access points' clocks on the UTC days of a window.
func (a *Ads) ClockError(w pool.Window) (largest pool.Micros) {
	for _, c := range a.ClocksIn(w) {
		largest = max(largest, c.Error, -c.Error)
	}
	return largest
}

// noticed is the error above which a correction is worth a notice.
const noticed = 30 * pool.Second

// Skew is an access point's clock on several days.
type Skew struct {
	AccessPoint string
	Known       bool        // on some day enough runs show it
	Days        int         // on which it was off by more than 30 s
	Low, High   pool.Micros // the errors of those days; positive = ahead of the collector's
	Median      pool.Micros
	Agree       int // constraints of those days that the errors fulfil
	Constraints int
}

// Skews sums clocks up by access point. They come by access point.
func Skews(all []Clock) (found []Skew) {
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].AccessPoint == all[0].AccessPoint {
			n++
		}
		s := Skew{AccessPoint: all[0].AccessPoint}
		var errors []pool.Micros
		for _, c := range all[:n] {
			s.Known = s.Known || c.Constraints >= enoughConstraints
			if max(c.Error, -c.Error) > noticed {
				errors = append(errors, c.Error)
				s.Agree, s.Constraints = s.Agree+c.Agree, s.Constraints+c.Constraints
			}
		}
		if s.Days = len(errors); s.Days > 0 {
			slices.Sort(errors)
			s.Low, s.Median, s.High = errors[0], errors[s.Days/2], errors[s.Days-1]
		}
		found, all = append(found, s), all[n:]
	}
	return found
}

// Largest is the largest absolute error.
func (s *Skew) Largest() pool.Micros { return max(s.High, -s.Low) }

// String says by how much the dates of the access point's ads were corrected, in a sentence without its full stop.
func (s *Skew) String() string {
	seconds := func(t pool.Micros) string { return fmt.Sprintf("%+.0f", float64(t)/float64(pool.Second)) }
	size, days := seconds(s.Low), "1 UTC day"
	if seconds(s.High) != size {
		size += " to " + seconds(s.High)
	}
	if s.Days != 1 {
		days = fmt.Sprintf("%d UTC days", s.Days)
	}
	return fmt.Sprintf("the clock of access point %s differs from the collector's by %s s on %s: the dates of its job "+
		"ads are corrected (%d of %d constraints agree). Keep it with NTP", s.AccessPoint, size, days, s.Agree, s.Constraints)
}

// clocks are the known errors.
type clocks struct {
	of  map[clockDay]Clock
	off []string // the access points whose clocks are wrong, which few are
}

// constraint says that the error of an access point's clock on a day lies in (low, high].
type constraint struct {
	clockDay
	interval
}

type interval struct{ low, high pool.Micros }

// measure finds the constraints that runs give, and the clocks' errors on their days and on those around them.
func (o *Observed) measure(ctx context.Context, ads *foundAds) (found clocks, err error) {
	var mu sync.Mutex
	byDay := map[clockDay][]interval{}
	err = parallel.EachWith(ctx, len(o.Machines), func(l *linker, m int) {
		l.turnTo(o, m, ads)
		l.constraints = l.constraints[:0]
		for r := range l.machine.Runs {
			if o.JobOf(m, r) < 0 || o.firstPiece(m, r) != r {
				continue
			}
			known := l.records(r)
			l.pieces = l.piecesOf(r, l.pieces[:0])
			for i := 0; i < len(l.pieces); {
				var run *Run
				run, i = l.join(l.pieces, i, known)
				l.constrain(run, known)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for _, c := range l.constraints {
			byDay[c.clockDay] = append(byDay[c.clockDay], c.interval)
		}
	})
	if err != nil {
		return clocks{}, err
	}
	// Each day with constraints gives a clock to the days around it.
	found.of = map[clockDay]Clock{}
	for of := range byDay {
		if ctx.Err() != nil {
			return clocks{}, ctx.Err()
		}
		for at := (clockDay{of.AccessPoint, of.Day - clockDays}); at.Day <= of.Day+clockDays; at.Day++ {
			if _, known := found.of[at]; known {
				continue
			}
			c := fit(at, around(byDay, at))
			if found.of[at] = c; c.Error != 0 && !slices.Contains(found.off, at.AccessPoint) {
				found.off = append(found.off, at.AccessPoint)
			}
		}
	}
	return found, nil
}

// around returns a day's constraints; while they are too few, with those of the days before and after it.
func around(byDay map[clockDay][]interval, at clockDay) []interval {
	found := slices.Clip(byDay[at])
	for d := int32(1); d <= clockDays && len(found) < enoughConstraints; d++ {
		found = append(append(found, byDay[clockDay{at.AccessPoint, at.Day - d}]...),
			byDay[clockDay{at.AccessPoint, at.Day + d}]...)
	}
	return found
}

// constrain adds the constraints of a run on the clock of its job's access point.
func (l *linker) constrain(run *Run, ads []record) {
	first, last := l.time(run.First), l.time(run.Last)
	var own record
	for _, next := range ads {
		if next.start == 0 || next.end == 0 || distance(next.start, first) >= nearStart ||
			distance(next.end, last) >= nearEnd || next.Machine != l.name || !l.sharesGPU(next, run.GPUs) {
			continue
		}
		if own.Ad == nil || distance(next.start, first) < distance(own.start, first) {
			own = next
		}
	}
	if own.Ad == nil {
		return
	}
	at := clockDay{own.AccessPoint, own.day()}
	if before := run.First - 1; int(before) >= l.observed.First && !l.observed.GapAfter(before) &&
		l.observed.Reports(l.machine, before) {
		l.constraints = append(l.constraints, constraint{at, interval{own.start - first, own.start - l.time(before)}})
	}
	if run.Ending == Vanished && own.VacateReasonCode != jobs.ReconnectFailed {
		l.constraints = append(l.constraints, constraint{at, interval{own.end - l.time(run.Gone), own.end - last}})
	}
}

// fit finds the middle of the interval that most constraints contain, of several the one nearest to 0. For example,
// (−10 s, 5 s], (2 s, 20 s] and (3 s, 8 s] all contain (3 s, 5 s], so the clock is 4 s ahead.
func fit(at clockDay, constraints []interval) Clock {
	c := Clock{clockDay: at, Constraints: len(constraints)}
	if c.Constraints < enoughConstraints {
		return c
	}
	// Believe the clock unless another one agrees with clearly more constraints.
	zero := 0
	for _, k := range constraints {
		if k.low < 0 && 0 <= k.high {
			zero++
		}
	}
	better := func(best int) bool { return 50*best > 51*zero+100 } // by more than 2 % and 2 constraints
	if c.Agree = zero; !better(c.Constraints) {
		return c
	}
	// Walk the beginnings of the intervals in order, and count how many contain what follows.
	lows, highs := make([]pool.Micros, c.Constraints), make([]pool.Micros, c.Constraints)
	for i, k := range constraints {
		lows[i], highs[i] = k.low, k.high
	}
	slices.Sort(lows)
	slices.Sort(highs)
	best := 0
	var low, high pool.Micros // the interval (low, high]
	away := func(low, high pool.Micros) pool.Micros { return max(low, -high, 0) }
	for i, at := range lows {
		ended, _ := slices.BinarySearch(highs, at+1)
		next := highs[ended] // the end of an interval that contains all that is between the two edges
		if i+1 < len(lows) {
			next = min(next, lows[i+1])
		}
		depth := i + 1 - ended
		if next > at && (depth > best || depth == best && away(at, next) < away(low, high)) {
			best, low, high = depth, at, next
		}
	}
	if low < 0 && 0 <= high || !better(best) {
		return c
	}
	c.Agree, c.Error = best, (low+high)>>1 // rounded down
	return c
}
