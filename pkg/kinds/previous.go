package kinds

import (
	"context"
	"fmt"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
)

// alike is the least part of the longer of two covered times that the shorter one has, for sums over them to be
// compared: less would look like a change of the pool.
const alike = 0.9

// comparable returns an answer about the period before without its notices, which are about figures that only serve for
// comparison, and without its rows if the two periods are not covered alike.
func comparable(ctx context.Context, s *stores.Stores, p *query.Plan, answer data.Frames) (data.Frames, error) {
	var hours [2]float64
	for i, w := range []pool.Window{p.Window, p.Request.Window} {
		covered, err := coveredBy(ctx, s, p, w)
		if err != nil {
			return nil, err
		}
		hours[i] = pool.Hours(covered)
	}
	before, now := hours[0], hours[1]
	for _, f := range answer {
		f.Meta.Notices = nil
	}
	if min(before, now) > 0 && min(before, now) >= alike*max(before, now) {
		return answer, nil
	}
	for i, f := range answer {
		empty := f.EmptyCopy()
		if empty.Meta = f.Meta; len(f.Fields) == 0 && now > 0 { // panels need a field to say why
			for _, name := range p.Metrics {
				empty.Fields = append(empty.Fields, data.NewField(name, nil, []*float64{}))
			}
		}
		answer[i] = empty
	}
	text := fmt.Sprintf("%s of %s h of the period before are covered, and %s h of the time range: not enough data for a "+
		"comparison, which needs 90%% of the longer one", frames.Decimal(before), frames.Decimal(p.Window.Hours()),
		frames.Decimal(now))
	answer[0].Meta.Notices = []data.Notice{{Severity: data.NoticeSeverityInfo, Text: text}}
	return answer, nil
}

// coveredBy is the part of a window about which the records say something: the snapshots, for demand the polls.
func coveredBy(ctx context.Context, s *stores.Stores, p *query.Plan, w pool.Window) (pool.Micros, error) {
	if p.Kind == demand.Kind.Name {
		return demand.Covered(ctx, s, w)
	}
	slices, err := counts.Slices(ctx, s.Timeline, p, w)
	if err != nil {
		return 0, err
	}
	return slices.Covered(w), nil
}
