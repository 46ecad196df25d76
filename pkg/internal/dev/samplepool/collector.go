package samplepool

import (
	"math/rand/v2"
	"slices"
	"time"
)

const timestampFormat = "2006-01-02 15:04:05.000000"

// collectorRuns are the times at which the collector wrote rows, ascending.
func (p *Pool) collectorRuns(rnd *rand.Rand) []time.Time {
	o := p.options
	seconds := func(low, high float64) time.Duration {
		return time.Duration((low+(high-low)*rnd.Float64())*1e6) * time.Microsecond
	}
	type outage struct{ from, to time.Time }
	var outages []outage
	length := o.End.Sub(o.Start)
	number := int(o.Outages*length.Hours()/(30*24) + rnd.Float64())
	if o.Outages > 0 && length >= 48*time.Hour {
		number = max(number, 1)
	}
	for range number {
		from := o.Start.Add(time.Duration(rnd.Float64() * float64(length)))
		outages = append(outages, outage{from, from.Add(seconds(3600, 6*3600))})
	}

	var runs []time.Time
	add := func(t time.Time) {
		down := slices.ContainsFunc(outages, func(o outage) bool { return t.After(o.from) && t.Before(o.to) })
		if !down && !t.Before(o.Start) && !t.After(o.End) {
			runs = append(runs, t)
		}
	}
	tick := o.Start.Truncate(o.Cadence)
	for ; tick.Before(o.End); tick = tick.Add(o.Cadence) {
		t := tick.Add(seconds(0.5, 9.5))
		if local := tick.In(p.zone); local.Day() == 1 && local.Hour() == 0 && local.Minute() == 0 {
			t = tick.Add(-seconds(0.5, 3)) // a run at the month's end whose rows are in the next month's file
		}
		if rnd.Float64() < o.LateSnapshots {
			t = t.Add(min(seconds(60, 300), o.Cadence/3))
		}
		missed, doubled, soon := rnd.Float64() < o.MissedSnapshots, rnd.Float64() < o.DoubledSnapshots, rnd.IntN(2) == 0
		if !missed {
			add(t)
		}
		if doubled && soon {
			add(t.Add(seconds(5, min(50, o.Cadence.Seconds()/2))))
		} else if doubled {
			add(t.Add(seconds(65, max(66, min(200, o.Cadence.Seconds()/2)))))
		}
	}
	slices.SortFunc(runs, time.Time.Compare)
	return runs
}

// month is the file that holds a run: its local month, but the next one's when it began in the last seconds of a month.
func (p *Pool) month(run time.Time) string {
	return run.Add(5 * time.Second).In(p.zone).Format("2006-01")
}
