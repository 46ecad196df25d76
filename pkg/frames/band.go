package frames

import (
	"maps"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/query"
)

// band draws a curve's interval: an area between its bounds, which have no lines, in the curve's color. The zero band
// leaves a curve to the panel.
type band struct {
	color string
	low   string // the display name of the lower bound
}

// bandColors are Grafana's, in the order of its classic palette as far as they differ.
var bandColors = []string{"green", "yellow", "blue", "orange", "red", "purple", "dark-green", "dark-yellow",
	"dark-blue", "dark-orange", "dark-red", "dark-purple"}

// bandOf returns the band of the curve at a place, if the query requests the curve and both bounds.
func bandOf(p *query.Plan, place int, group []string) band {
	for _, metric := range []string{ofCurve, "low", "high"} {
		if !slices.Contains(p.Metrics, metric) {
			return band{}
		}
	}
	return band{bandColors[place%len(bandColors)], seriesName(p, group, "low")}
}

func (b band) draw(metric string, c *data.FieldConfig) {
	if b.low == "" || metric == "atRisk" {
		return
	}
	c.Color = map[string]any{"mode": "fixed", "fixedColor": b.color}
	if metric == ofCurve {
		return
	}
	custom := map[string]any{"lineWidth": 0,
		"hideFrom": map[string]any{"legend": true, "tooltip": false, "viz": false}}
	if metric == "high" {
		custom["fillBelowTo"], custom["fillOpacity"] = b.low, 15
	}
	maps.Copy(custom, c.Custom)
	c.Custom = custom
}
