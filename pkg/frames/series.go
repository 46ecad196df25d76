package frames

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// Series is one metric of one group over time.
type Series struct {
	Group  []string // by the plan's groupings
	Metric string
	Times  []pool.Micros // ascending
	Values []float64     // NaN: no point
}

// TimeSeries returns a frame a series (timeseries-multi), ordered by group, then by metric as asked. Points without a value
// and series without a point are left out.
func TimeSeries(p *query.Plan, a *About, all []Series) data.Frames {
	slices.SortStableFunc(all, func(x, y Series) int {
		if c := query.CompareGroups(p.GroupBy, x.Group, y.Group); c != 0 {
			return c
		}
		return cmp.Compare(slices.Index(p.Metrics, x.Metric), slices.Index(p.Metrics, y.Metric))
	})
	all = slices.DeleteFunc(all, func(s Series) bool { return !slices.ContainsFunc(s.Values, finite) })
	shown := all[:min(len(all), p.Max(100))]
	a.cut(len(shown), len(all), "series")
	var frames data.Frames
	for _, s := range shown {
		var at []pool.Micros
		var values []float64
		for i, v := range s.Values {
			if finite(v) {
				at, values = append(at, s.Times[i]), append(values, v)
			}
		}
		time := times("time", at)
		if p.Bucket != nil {
			time.Config = &data.FieldConfig{Interval: float64(bucketMillis(p))}
		}
		labels := data.Labels{}
		for g, name := range p.GroupBy {
			labels[name] = s.Group[g]
		}
		value := data.NewField(s.Metric, labels, values)
		value.Config = column(s.Metric)
		value.Config.DisplayNameFromDS = displayName(p, s)
		value.Config.Custom = categoryKey(p, s.Group)
		if len(p.Metrics) > 1 {
			labels["metric"] = s.Metric
		}
		f := data.NewFrame("", time, value)
		f.Meta = meta(data.FrameTypeTimeSeriesMulti)
		frames = append(frames, f)
	}
	return a.Finish(frames)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func bucketMillis(p *query.Plan) int64 {
	return (time.Duration(p.Bucket.Minutes) * time.Minute).Milliseconds()
}

// displayName is the group, and the metric where there are several or no group.
func displayName(p *query.Plan, s Series) string {
	parts := slices.DeleteFunc(slices.Clone(s.Group), func(v string) bool { return v == "" })
	if len(parts) == 0 || len(p.Metrics) > 1 {
		parts = append(parts, presentations[s.Metric].name)
	}
	return strings.Join(parts, " · ")
}

// categoryKey is the field's `custom` with the key of the group's category.
func categoryKey(p *query.Plan, group []string) map[string]any {
	if i := slices.Index(p.GroupBy, "category"); i >= 0 {
		if c, ok := pool.ParseCategory(group[i]); ok {
			return map[string]any{"categoryKey": c.Key()}
		}
	}
	return nil
}
