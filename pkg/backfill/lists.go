package backfill

import (
	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
)

// list shows the periods, newest first; those that end together by machine, GPU and time.
func (a *answer) list() data.Frames {
	periods := frames.Newest(a.About, a.periods[a.wanted[0]], func(p *Period) pool.Micros { return p.End })
	return frames.Columns(a.Plan, a.About,
		frames.Text("machine", frames.Each(periods, func(p *Period) string { return a.Names[p.Place.Machine] })),
		frames.Text("gpu", frames.Each(periods, func(p *Period) string { return a.Names[p.GPU] })),
		frames.Text("device", frames.Each(periods, func(p *Period) string {
			return a.Plan.Shown("device", a.Names[p.Place.Device])
		})),
		frames.Text("category", frames.Each(periods, func(p *Period) string { return p.Place.Category().String() })),
		frames.Time("start", frames.Each(periods, func(p *Period) pool.Micros { return p.Start })),
		frames.Time("end", frames.Each(periods, func(p *Period) pool.Micros { return p.End })),
		frames.Number("hours", frames.Each(periods, func(p *Period) float64 { return pool.Hours(p.Length()) })),
		frames.Text("endReason", frames.Each(periods, func(p *Period) string { return p.Reason.String() })),
		frames.Bool("censored", frames.Each(periods, (*Period).Censored)),
		frames.Bool("leftTruncated", frames.Each(periods, func(p *Period) bool { return p.Beginning == LeftTruncated })),
		frames.Bool("unknownStart", frames.Each(periods, func(p *Period) bool { return p.Beginning == UnknownStart })),
		frames.Text("job", frames.Each(periods, func(p *Period) string {
			if p.Job.IsNone() {
				return ""
			}
			return a.Plan.Shown("job", a.Observed.View.Names.JobText(p.Job))
		})),
		frames.Text("link", frames.Each(periods, func(p *Period) string {
			if p.Reason != Claimed && p.Reason != Reclaimed { // no run ended it
				return ""
			}
			return p.Link.String()
		})))
}
