// Package kinds is the list of the kinds of question that there are.
package kinds

import (
	"context"
	"fmt"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/allocation"
	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/evictions"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/userhours"
	"github.com/chtc/gpureports/pkg/utilization"
)

//go:generate go run ../internal/dev/generate

// kind is a kind of question. Errors of an answer are pool.BadQuery, pool.SourceError without any snapshot, and ctx's.
type kind struct {
	query.Kind
	answer func(context.Context, *stores.Stores, *query.Plan) (data.Frames, error)
}

// all are the kinds, in the order of the editor. A new kind is a folder and a line here.
var all = []kind{
	{allocation.Kind, allocation.Answer},
	{userhours.Kind, userhours.Answer},
	{backfill.Kind, backfill.Answer},
	{evictions.Kind, evictions.Answer},
	{demand.Kind, demand.Answer},
	{utilization.Kind, utilization.Answer},
}

// Catalog describes all kinds.
var Catalog = func() (c query.Catalog) {
	for i := range all {
		c = append(c, all[i].Kind)
	}
	return c
}()

// Answer plans a query and answers it by its kind.
func Answer(ctx context.Context, s *stores.Stores, env query.Env, r query.Request) (data.Frames, error) {
	p, err := Catalog.Plan(r, env)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(k kind) bool { return k.Name == p.Kind })
	answer, err := all[i].answer(ctx, s, p)
	if err != nil || !p.Previous {
		return answer, err
	}
	return comparable(ctx, s, p, answer)
}

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
	if min(before, now) > 0 && min(before, now) >= 0.9*max(before, now) { // enough to compare sums
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
