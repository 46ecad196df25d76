package backfill

import (
	"context"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
)

// list shows the periods, newest first; those that end together by machine, GPU and time.
func (a *answer) list(context.Context) (data.Frames, error) {
	periods := frames.Newest(a.About, a.periods[a.wanted[0]], func(p *Period) pool.Micros { return p.End })
	return frames.Columns(a.Plan, a.About,
		periods.Text("machine", func(p *Period) string { return a.Names[p.Place.Machine] }),
		periods.Text("gpu", func(p *Period) string { return a.Names[p.GPU] }),
		periods.Text("device", func(p *Period) string { return a.Plan.Shown("device", a.Names[p.Place.Device]) }),
		periods.Text("category", func(p *Period) string { return p.Place.Category().String() }),
		periods.Time("start", func(p *Period) pool.Micros { return p.Start }),
		periods.Time("end", func(p *Period) pool.Micros { return p.End }),
		periods.Number("hours", func(p *Period) float64 { return pool.Hours(p.Length()) }),
		periods.Text("endReason", func(p *Period) string { return p.Reason.String() }),
		periods.Bool("censored", (*Period).Censored),
		periods.Bool("leftTruncated", func(p *Period) bool { return p.Beginning == LeftTruncated }),
		periods.Bool("unknownStart", func(p *Period) bool { return p.Beginning == UnknownStart }),
		periods.Text("job", func(p *Period) string {
			if p.Job.IsNone() {
				return ""
			}
			return a.Plan.Shown("job", a.Observed.View.Names.JobText(p.Job))
		}),
		periods.Text("link", func(p *Period) string {
			if p.Reason != Claimed && p.Reason != Reclaimed { // no run ended it
				return ""
			}
			return p.Link.String()
		})), nil
}
