package dashboards

import (
	"maps"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// hour in milliseconds: as long, a missed run of the collector is drawn over.
const hour = 3600_000

// Ways to draw a series. Units, decimals and names come with the frames.

// lines draws series as lines.
func lines(overrides ...Override) View {
	return series(object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 0, "showPoints": "auto", "spanNulls": hour}, overrides)
}

// areas stacks series: their sum has a meaning.
func areas(overrides ...Override) View {
	return series(object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 60, "showPoints": "never", "spanNulls": hour, "stacking": object{"mode": "normal", "group": "A"}}, overrides)
}

// steps draws counts that hold until the next point.
func steps(overrides ...Override) View {
	v := lines(overrides...)
	custom := v.Defaults["custom"].(object)
	custom["lineInterpolation"], custom["axisSoftMax"] = "stepAfter", 1
	return v
}

// bars stacks series of amounts: a bar is what fell into its bucket.
func bars(overrides ...Override) View {
	return series(object{"drawStyle": "bars", "lineWidth": 0, "fillOpacity": 80, "barAlignment": 1, "barWidthFactor": 0.9, "stacking": object{"mode": "normal", "group": "A"}}, overrides)
}

func series(custom object, overrides []Override) View {
	return View{
		Type: "timeseries",
		Options: object{
			"legend":  object{"showLegend": true, "displayMode": "list", "placement": "bottom", "calcs": []string{}},
			"tooltip": object{"mode": "multi", "sort": "desc", "hideZeros": true},
		},
		Defaults:  object{"custom": custom, "min": 0, "color": object{"mode": "palette-classic"}},
		Overrides: overrides,
	}
}

// barGauge shows the last point of each series as a bar.
func barGauge(thresholds object, overrides ...Override) View {
	color := "continuous-BlPu"
	if thresholds != nil {
		color = "thresholds"
	}
	v := View{
		Type: "bargauge",
		Options: object{
			"displayMode": "basic", "orientation": "horizontal", "valueMode": "color", "namePlacement": "left", "showUnfilled": true, "sizing": "manual",
			"minVizHeight": 16, "minVizWidth": 8, "maxVizHeight": 32,
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
			"legend":        object{"showLegend": false, "displayMode": "list", "placement": "bottom", "calcs": []string{}},
		},
		Defaults:  object{"min": 0, "color": object{"mode": color}},
		Overrides: overrides,
	}
	if thresholds != nil {
		v.Defaults["thresholds"] = thresholds
	}
	return v
}

// stats shows numbers of a table's last row: those whose readable name matches the pattern.
func stats(pattern string, overrides ...Override) View {
	return View{
		Type: "stat",
		Options: object{
			"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "orientation": "auto", "textMode": "value_and_name", "wideLayout": false, "text": object{"titleSize": 13, "valueSize": 22}, "showPercentChange": false,
			"percentChangeColorMode": "standard", "reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": pattern, "values": false},
		},
		Defaults:  object{"color": object{"mode": "thresholds"}, "thresholds": levels("text")},
		Overrides: overrides,
	}
}

// table shows a table as it comes.
func table(overrides ...Override) View {
	return View{
		Type:      "table",
		Options:   object{"showHeader": true, "cellHeight": "sm", "frameIndex": 0},
		Defaults:  object{"custom": object{"align": "auto", "cellOptions": object{"type": "auto"}, "filterable": true, "inspect": false, "minWidth": 90, "wrapHeaderText": true}},
		Overrides: slices.Concat(textColumns, overrides),
	}
}

// textColumns gives columns of texts room, and links to those that name something that a dashboard shows.
var textColumns = []Override{
	{"category", width(230)},
	{"machine", linkedColumn(230, "machine", "gpureports-machine", "State, users and jobs of this machine")},
	{"user", linkedColumn(220, "user", "gpureports-users", "GPU hours of this user")},
	{"device", linkedColumn(220, "device", "gpureports-backfill", "Backfill on this device")},
	{"project", width(200)},
	{"job", width(210)},
	{"cause", width(190)},
}

// list shows a table of things: machines, GPUs, runs, events.
func list(overrides ...Override) View {
	v := table(slices.Concat([]Override{
		{"time", width(190)},
		{"start", width(190)},
		{"end", width(190)},
		{"since", width(190)},
		{"lastSeen", width(190)},
		{"gpu", width(130)},
		{"gpuIds", width(160)},
		{"projects", width(160)},
		{"devices", width(220)},
		{"ownership", width(150)},
		{"takenOverBy", width(220)},
		{"excludedReason", width(300)},
		{"allocatedPercent", percentBar},
		{"state", stateColors},
		{"hours", width(90)},
	}, overrides)...)
	custom := v.Defaults["custom"].(object)
	custom["minWidth"], custom["wrapHeaderText"], custom["inspect"] = 120, false, true // a job's id is longer than its column
	return v
}

// one shows a list of a single thing.
func one(v View) View {
	custom := v.Defaults["custom"].(object)
	custom["filterable"], custom["wrapHeaderText"], custom["minWidth"] = false, true, 80
	return v
}

// stateColors are those of the state timeline.
var stateColors = object{"custom.cellOptions": object{"type": "color-text"}, "mappings": []object{{"type": "value", "options": object{
	"Free": object{"color": "green"}, "Claimed": object{"color": "blue"}, "Backfill": object{"color": "purple"},
	"Drained": object{"color": "orange"}, "Prevented": object{"color": "red"},
}}}}

func width(pixels int) object { return object{"custom.width": pixels} }

func linkedColumn(pixels int, column, uid, title string) object {
	return object{"custom.width": pixels, "links": []object{link(uid, title, column, "${__data.fields."+column+":percentencode}")}}
}

// metrics is a table of metrics, with the rows that add others up set off. Those rows are told by rowType.
func metrics(overrides ...Override) View {
	shade := func(color string) object { return object{"color": color} }
	v := table(append([]Override{{"rowType", object{
		"custom.cellOptions":  object{"type": "color-background", "mode": "basic", "applyToRow": true},
		"custom.hideFrom.viz": true,
		"color":               object{"mode": "thresholds"},
		"thresholds":          levels("transparent"),
		"mappings": []object{{"type": "value", "options": object{
			"group": shade("rgba(110, 159, 255, 0.16)"), "total": shade("rgba(128, 128, 128, 0.24)"),
		}}},
	}}}, overrides...)...)
	v.Defaults["custom"].(object)["filterable"] = false // would take rows away from their header and total
	return v
}

// usage is a table of GPU hours by user: the users take the room that the other columns leave.
func usage() View {
	return metrics(
		Override{"user", object{"custom.width": nil, "custom.minWidth": 140}},
		Override{"userCount", object{"custom.width": 65, "custom.minWidth": 50}},
		Override{"gpuHours", width(95)},
		Override{"percentOfTotal", object{"custom.width": 80, "custom.minWidth": 50}},
	)
}

// curves draws survival curves: a frame with ascending hours, steps, and each curve's interval as a band.
func curves() View {
	v := series(object{"drawStyle": "line", "lineInterpolation": "stepAfter", "lineWidth": 2, "fillOpacity": 0, "showPoints": "never", "spanNulls": false}, nil)
	v.Type = "trend"
	v.Options["xField"] = "hours"
	delete(v.Defaults, "min") // would hold for the hours too
	custom := v.Defaults["custom"].(object)
	custom["axisSoftMin"], custom["axisSoftMax"] = 0, 1
	v.Overrides = []Override{{"survival", object{"decimals": 1}}}
	return v
}

// week is a heat map of weekdays and hours.
func week(scheme string) View {
	return View{
		Type: "heatmap",
		Options: object{
			"calculate": false, "cellGap": 1, "showValue": "never", "legend": object{"show": true}, "tooltip": object{"mode": "single", "yHistogram": false, "showColorScale": true},
			"color":        object{"mode": "scheme", "scheme": scheme, "scale": "linear", "exponent": 0.5, "fill": "dark-blue", "steps": 64, "reverse": false},
			"yAxis":        object{"axisPlacement": "left", "reverse": true},
			"filterValues": object{},
			"rowsFrame":    object{"layout": "auto"},
			"exemplars":    object{"color": "rgba(255,0,255,0.7)"},
		},
		Defaults: object{"custom": object{"scaleDistribution": object{"type": "linear"}}},
	}
}

// stateTimeline shows the states of each series as coloured bands.
func stateTimeline() View {
	return View{
		Type: "state-timeline",
		Options: object{
			"mergeValues": true, "showValue": "auto", "alignValue": "left", "rowHeight": 0.85, "perPage": 0,
			"legend": object{"showLegend": true, "displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "single", "sort": "none"},
		},
		Defaults: object{"custom": object{"lineWidth": 0, "fillOpacity": 80, "spanNulls": false, "insertNulls": false}, "color": object{"mode": "palette-classic"}},
	}
}

// levels are thresholds: a base colour, then pairs of a value and the colour from there on.
func levels(base string, steps ...any) object {
	list := []object{{"color": base, "value": nil}}
	for i := 0; i+1 < len(steps); i += 2 {
		list = append(list, object{"color": steps[i+1], "value": steps[i]})
	}
	return object{"mode": "absolute", "steps": list}
}

// percentBar shows a column of percentages as bars.
var percentBar = object{
	"custom.cellOptions": object{"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}, "custom.width": 130,
	"min": 0, "max": 100, "color": object{"mode": "fixed", "fixedColor": "blue"},
}

// categoryColors follow those of states: blue tones where owners have a claim, purple ones for backfill.
var categoryColors = colors(map[string]string{
	pool.PriorityResearcher.String(): "dark-blue", pool.PriorityCHTC.String(): "light-blue", pool.Shared.String(): "orange",
	pool.BackfillResearcher.String(): "dark-purple", pool.BackfillCHTC.String(): "purple", pool.BackfillOpen.String(): "light-purple",
})

// machineTypeColors tell machines with an owner from open capacity.
var machineTypeColors = colors(map[string]string{pool.ResearcherOwned.MachineType(): "blue", pool.OpenCapacity.MachineType(): "green"})

// others are the users that have no series of their own.
var others = Override{query.Other, object{"color": object{"mode": "fixed", "fixedColor": "#8e8e8e"}}}

// colors fixes the colours of series.
func colors(byName map[string]string) []Override {
	var overrides []Override
	for _, name := range sorted(toObject(byName)) {
		overrides = append(overrides, Override{name, object{"color": object{"mode": "fixed", "fixedColor": byName[name]}}})
	}
	return overrides
}

func toObject(m map[string]string) object {
	o := object{}
	for k, v := range maps.All(m) {
		o[k] = v
	}
	return o
}
