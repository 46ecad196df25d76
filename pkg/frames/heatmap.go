package frames

import (
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/query"
)

// Week holds a value for each weekday (0 = Monday) and local hour; NaN is null.
type Week [7][24]float64

// HeatMap returns a week as heatmap-cells: x is the hour, y the weekday, y fastest; 168 rows. If there is no value,
// there are no data.
func HeatMap(p *query.Plan, a *About, values *Week) data.Frames {
	var x, y []int64
	var cells []float64
	for hour := range 24 {
		for day := range 7 {
			x, y, cells = append(x, int64(hour)), append(y, int64(day)), append(cells, values[day][hour])
		}
	}
	if !slices.ContainsFunc(cells, finite) {
		return a.Finish(nil)
	}
	value := Number("value", cells)
	value.Config = column(p, p.Metrics[0])
	f := data.NewFrame("", data.NewField("x", nil, x), data.NewField("y", nil, y), value)
	f.Meta = meta(frameType(p))
	f.Meta.Custom = map[string]any{"yOrdinalDisplay": []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}}
	return a.Finish(data.Frames{f})
}
