package check

import (
	"context"
	"fmt"
	"path"
	"sort"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// NewestZoneFinding compares the snapshots of the newest week, of which the view is, with the times at which their jobs
// were queued.
func NewestZoneFinding(ctx context.Context, t *timeline.Timeline, zone *localtime.Zone, view *timeline.View,
	w pool.Window) Finding {
	found := Finding{Store: "timezone", Severity: OK, Details: map[string]any{"timezone": zone.Key()}}
	wait := shortestWait(view, w)
	if wait.Jobs == 0 {
		found.Text = fmt.Sprintf("time zone: %s; no job in the newest 7 days of snapshots shows whether it is right",
			zone.Key())
		return found
	}
	found.Details["shortestWaitSeconds"] = seconds(wait.Shortest)
	var remedy string // unless there is a better one
	switch {
	case wait.early():
		found.Text = fmt.Sprintf("time zone: with %s a job of %s is seen %s before it was queued: the collector's clock is "+
			"behind the setting timezone. ", zone.Key(), wait.Schedd, WholeLength(-wait.Shortest))
		remedy = "It is too little for another zone: keep the collector's clock and that access point's with NTP"
	case wait.late():
		found.Text = fmt.Sprintf("time zone: with %s no job is seen sooner than %s after it was queued: the collector's "+
			"clock is ahead of the setting timezone, for example because it writes "+
			"UTC. ", zone.Key(), WholeLength(wait.Shortest))
		remedy = fmt.Sprintf("Only %d jobs tell: look whether snapshots have the right time", wait.Jobs)
	default:
		found.Text = fmt.Sprintf("time zone: %s fits the jobs' queue dates", zone.Key())
		return found
	}
	found.Severity = Warning
	advice, err := zoneAdvice(ctx, t, zone, wait)
	switch {
	case err != nil:
		remedy = "Older data do not show since when: " + err.Error()
	case advice != "":
		remedy = advice
	}
	found.Text += remedy
	return found
}

// zoneAdvice proposes a value for timezone if the newest data do not fit the current one: another zone, or, if older
// data fit, the list form with the time at which the collector's clock changed. "" if the time zone is not the fault.
// wait is the wait of the newest week.
func zoneAdvice(ctx context.Context, t *timeline.Timeline, zone *localtime.Zone, wait Wait) (string, error) {
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
	return "The older data fit: set timezone to " + zoneList(zone.Text(change), zone.Key(), name), nil
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
	fitting := 1 + sort.Search(weeks, func(n int) bool { // weeks before the newest
		if err != nil {
			return false
		}
		var fits bool
		fits, err = s.fits(s.week(n + 1))
		return fits
	})
	if err != nil || fitting > weeks {
		return 0, false, err
	}
	return s.within(pool.Window{From: s.week(fitting).From, To: s.week(fitting - 1).To})
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
	wait := shortestWait(v, w)
	return wait.Jobs > 0 && wait.shift() == 0, nil
}

// within finds the change in a window: where the collector switched to another format, otherwise at the first snapshot
// of the first day that does not fit.
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
		wait := shortestWait(v, day)
		if first, end := v.Snapshots(day); first < end && wait.shift() != 0 {
			return v.Times[first], true, nil
		}
	}
	return 0, false, nil
}
