package check

import (
	"context"
	"fmt"
	"path"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// ZoneAdvice says what to set timezone to when the newest data do not fit it: another zone, or, if older data fit, the
// list form with the time at which the collector's clock changed. "" if a time zone is not what is wrong.
// wait is that of the newest week.
func ZoneAdvice(ctx context.Context, t *timeline.Timeline, zone *localtime.Zone, wait Wait) (string, error) {
	if wait.shift() == 0 {
		return "", nil
	}
	name := likely(zone, []Wait{wait})
	if isList(zone) {
		return "Let the last zone of the list be " + name, nil
	}
	s := zoneSearch{ctx: ctx, timeline: t, zone: zone, newest: wait.Window.To}
	change, found, err := s.change()
	if err != nil {
		return "", err
	}
	if !found {
		return "Set timezone to " + name, nil
	}
	const list = `The older data fit: set timezone to [{"until": "%s", "zone": "%s"}, {"zone": "%s"}]`
	return fmt.Sprintf(list, zone.Text(change), zone.Key(), name), nil
}

// zoneSearch looks for the time from which on the time zone does not fit. It has changed once.
type zoneSearch struct {
	ctx      context.Context //nolint:containedctx // lives as long as one call
	timeline *timeline.Timeline
	zone     *localtime.Zone
	newest   pool.Micros
}

// change returns the first snapshot that does not fit. found is false if no older data do.
func (s *zoneSearch) change() (at pool.Micros, found bool, err error) {
	first, _, ok, err := s.timeline.Range(s.ctx)
	if err != nil || !ok {
		return 0, false, err
	}
	weeks := int((s.newest - first) / week)
	bad, good := 0, 1
	for ; ; good = min(2*good, weeks) { // weeks before the newest
		if good > weeks {
			return 0, false, nil
		}
		fits, err := s.fits(s.week(good))
		if err != nil {
			return 0, false, err
		}
		if fits {
			break
		}
		if bad = good; good == weeks {
			return 0, false, nil
		}
	}
	for good-bad > 1 {
		middle := (good + bad) / 2
		fits, err := s.fits(s.week(middle))
		if err != nil {
			return 0, false, err
		}
		if fits {
			good = middle
		} else {
			bad = middle
		}
	}
	return s.within(pool.Window{From: s.week(good).From, To: s.week(bad).To})
}

// week is the n-th week before the newest one.
func (s *zoneSearch) week(n int) pool.Window {
	to := s.newest - pool.Micros(n)*week
	return pool.Window{From: to - week + 1, To: to}
}

// fits reports whether the jobs of a window say that the time zone is right.
func (s *zoneSearch) fits(w pool.Window) (bool, error) {
	v, err := s.timeline.Load(s.ctx, w.From, w.To)
	if err != nil {
		return false, err
	}
	wait := ShortestWait(v, w)
	return wait.Jobs > 0 && wait.shift() == 0, nil
}

// within finds the change in a window: where the collector went on in another format, else at the first snapshot of the
// first day that does not fit.
func (s *zoneSearch) within(w pool.Window) (at pool.Micros, found bool, err error) {
	state, err := s.timeline.Source().Look(s.ctx)
	if err != nil {
		return 0, false, err
	}
	parts, err := state.Parts(s.ctx)
	if err != nil {
		return 0, false, err
	}
	format := ""
	for _, part := range parts {
		if part.Err != nil || !part.Dated {
			continue
		}
		if is := path.Ext(part.Name); is != format {
			if format != "" && w.From < part.Window.From && part.Window.From <= w.To {
				return part.Window.From, true, nil
			}
			format = is
		}
	}
	for date := pool.DayOf(w.From); date <= pool.DayOf(w.To); date++ {
		begin := pool.Micros(date) * pool.Day
		day := pool.Window{From: begin, To: begin + pool.Day - 1}
		v, err := s.timeline.Load(s.ctx, day.From, day.To)
		if err != nil {
			return 0, false, err
		}
		wait := ShortestWait(v, day)
		if first, end := v.Snapshots(day); first < end && wait.shift() != 0 {
			return v.Times[first], true, nil
		}
	}
	return 0, false, nil
}
