package runs

import (
	"context"
	"maps"
	"slices"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// constraint says that the error of an access point's clock on a day lies in (low, high].
type constraint struct {
	clockDay
	interval
}

// clockDay is an access point on a UTC day.
type clockDay struct {
	point string
	day   int32
}

type interval struct{ low, high pool.Micros }

// measure finds the constraints that runs give, and the clocks' errors on all days near one.
func (o *Observed) measure(ctx context.Context, ads *Ads) (clocks, error) {
	byMachine := make([][]constraint, len(o.Machines))
	err := parallel.Each(ctx, len(o.Machines), func(l *linker, m int) {
		l.read(o, m, ads)
		l.found = l.found[:0]
		for r := range l.machine.Runs {
			job := o.jobs().of[m][r]
			if job < 0 || o.firstPiece(m, r) != r {
				continue
			}
			known := l.records(r)
			if len(known) == 0 {
				continue
			}
			l.pieces = l.piecesOf(r, l.pieces[:0])
			for i := 0; i < len(l.pieces); {
				var run *Run
				run, i = l.join(l.pieces, i, known)
				l.found = l.constrain(run, known, l.found)
			}
		}
		byMachine[m] = slices.Clone(l.found)
	})
	if err != nil {
		return nil, err
	}
	byDay := map[clockDay][]interval{}
	for _, list := range byMachine {
		for _, c := range list {
			byDay[c.clockDay] = append(byDay[c.clockDay], c.interval)
		}
	}
	return fitAll(ctx, byDay)
}

// fitAll measures clocks on days with constraints and on those around them: an ad of a day without any needs the clock
// of that day as well.
func fitAll(ctx context.Context, byDay map[clockDay][]interval) (clocks, error) {
	near := map[clockDay]bool{}
	for at := range byDay {
		for d := at.day - clockDays; d <= at.day+clockDays; d++ {
			near[clockDay{at.point, d}] = true
		}
	}
	days := slices.Collect(maps.Keys(near))
	fitted := make([]Clock, len(days))
	err := parallel.Each(ctx, len(days), func(_ *struct{}, i int) {
		fitted[i] = fit(around(byDay, days[i]))
		fitted[i].AccessPoint, fitted[i].Day = days[i].point, days[i].day
	})
	found := clocks{}
	for i, at := range days {
		if found[at.point] == nil {
			found[at.point] = map[int32]*Clock{}
		}
		found[at.point][at.day] = &fitted[i]
	}
	return found, err
}

// around returns a day's constraints; while they are too few, with those of the days before and after it.
func around(byDay map[clockDay][]interval, at clockDay) []interval {
	found := slices.Clone(byDay[at])
	for d := int32(1); d <= clockDays && len(found) < enoughConstraints; d++ {
		found = append(append(found, byDay[clockDay{at.point, at.day - d}]...), byDay[clockDay{at.point, at.day + d}]...)
	}
	return found
}
