package dashboards

import "github.com/chtc/gpureports/pkg/query"

// hour in milliseconds: as long, a missed run of the collector is drawn over.
const hour = 3600_000

// Ways to draw a series. Units, decimals and names come with the frames.

// ratios draws shares and rates as lines. Their legend has no mean: that of the points is not the ratio over the range.
func ratios(overrides ...Override) View {
	v := series(line(), overrides)
	v.Options["legend"] = namesAt("bottom")
	return v
}

// namesAt is a legend with names only.
func namesAt(placement string) object {
	return object{"showLegend": true, "displayMode": "list", "placement": placement, "calcs": []string{}}
}

// areas stacks series: their sum has a meaning.
func areas(overrides ...Override) View {
	return series(object{
		"drawStyle": "line", "lineWidth": 1, "fillOpacity": 60, "showPoints": "auto", "spanNulls": hour,
		"stacking": object{"mode": "normal", "group": "A"},
	}, overrides)
}

// steps draws counts that hold until the next point.
func steps(overrides ...Override) View {
	custom := line()
	custom["lineInterpolation"], custom["axisSoftMax"] = "stepAfter", 1
	return series(custom, overrides)
}

func line() object {
	return object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 0, "showPoints": "auto", "spanNulls": hour}
}

// bars stacks series of amounts: a bar is the amount in its bucket.
func bars(overrides ...Override) View {
	v := series(object{
		"drawStyle": "bars", "lineWidth": 0, "fillOpacity": 80, "barAlignment": 1, "barWidthFactor": 0.9,
		"stacking": object{"mode": "normal", "group": "A"},
	}, overrides)
	v.Defaults["decimals"] = 0
	legend := v.Options["legend"].(object)
	legend["calcs"], legend["sortBy"] = []string{"sum"}, "Total"
	return v
}

func series(custom object, overrides []Override) View {
	return View{
		Type: "timeseries",
		Options: object{
			"legend": object{
				"showLegend": true, "displayMode": "list", "placement": "bottom",
				"calcs": []string{"mean"}, "sortBy": "Mean", "sortDesc": true,
			},
			"tooltip": object{"mode": "multi", "sort": "desc", "hideZeros": true},
		},
		Defaults:  object{"custom": custom, "min": 0, "decimals": 1, "color": byName},
		Overrides: overrides,
	}
}

// percent draws percentages on the full scale.
func percent(v View) View {
	v.Defaults["max"], v.Defaults["decimals"] = 100, 0
	return v
}

// alertsBelow draws the threshold of an alert rule.
func alertsBelow(v View, limit float64) View {
	v.Defaults["thresholds"] = levels(vermilion, limit, "transparent")
	v.Defaults["custom"].(object)["thresholdsStyle"] = object{"mode": "dashed"}
	return v
}

// linked gives all series of a view links.
func linked(v View, links []Link) View {
	v.Defaults["links"] = links
	return v
}

// barGauge shows the last point of each series as a bar. Thresholds color it where there are any.
func barGauge(thresholds object, overrides ...Override) View {
	return View{
		Type: "bargauge",
		Options: object{
			"displayMode": "basic", "orientation": "horizontal", "valueMode": "text", "namePlacement": "top",
			"showUnfilled": true, "sizing": "manual",
			"minVizHeight": 16, "minVizWidth": 8, "maxVizHeight": 28,
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
			"legend":        object{"showLegend": false, "displayMode": "list", "placement": "bottom", "calcs": []string{}},
		},
		Defaults:  object{"min": 0, "max": 100, "color": object{"mode": "thresholds"}, "thresholds": thresholds},
		Overrides: overrides,
	}
}

// stat shows a number, or the numbers whose readable names match the pattern: of series the last point, of a table the
// last row.
func stat(pattern string, overrides ...Override) View {
	return View{
		Type: "stat",
		Options: object{
			"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "orientation": "auto", "textMode": "value",
			"wideLayout": true,
			"text":       object{"valueSize": 32}, "showPercentChange": false, "percentChangeColorMode": "standard",
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": pattern, "values": false},
		},
		Defaults:  object{"color": object{"mode": "thresholds"}, "thresholds": levels("text")},
		Overrides: overrides,
	}
}

// summed shows the sum of a table's column.
func summed(column string) View {
	v := stat(column)
	v.Options["reduceOptions"].(object)["calcs"] = []string{"sum"}
	return v
}

// sparkline adds the course of a series to its last point. It starts at zero: the course of a count that is nearly
// constant would look like a collapse.
func sparkline(v View) View {
	v.Options["graphMode"], v.Defaults["min"] = "area", 0
	return v
}

// stats shows several numbers with their names.
func stats(pattern string, overrides ...Override) View {
	v := stat(pattern, overrides...)
	v.Options["textMode"], v.Options["text"] = "value_and_name", object{"titleSize": 13, "valueSize": 22}
	return v
}

// dated makes the values of stats so small that a date and its time of day fit on a line of a narrow panel.
func dated(v View) View {
	v.Options["text"] = object{"titleSize": 13, "valueSize": 16}
	return v
}

// compared is a figure of the time range, a kind's metric over what is chosen, beside that of the period before.
func compared(title, description, kind, metric string, chosen query.Filter, properties object) Panel {
	now := ask(kind, "summary").by().of(metric).where(chosen)
	before := now
	before.Previous = true
	if _, named := properties["displayName"]; !named {
		properties = with(properties, "displayName", "This period")
	}
	return Panel{Title: title, Description: description, Width: 8, Height: 3, Query: now, More: []Query{before},
		View: stats("/.*/", Override{metric, properties}, Override{ofQuery + "B", object{"displayName": "Period before",
			"noValue": "too little data"}})}
}

// saying shows a text if there is nothing to show.
func saying(text string, v View) View {
	v.Defaults["noValue"] = text
	return v
}

// curves draws survival curves over the first two days: a frame with ascending hours, steps, and each curve's interval
// as a band.
func curves(overrides ...Override) View {
	v := series(object{"drawStyle": "line", "lineInterpolation": "stepAfter", "lineWidth": 2, "fillOpacity": 0,
		"showPoints": "never", "spanNulls": false}, nil)
	v.Type = "trend"
	v.Options["xField"] = "hours"
	v.Options["legend"] = namesAt("bottom")
	delete(v.Defaults, "min") // would hold for the hours too
	custom := v.Defaults["custom"].(object)
	custom["axisSoftMin"], custom["axisSoftMax"] = 0, 1
	whole := object{"decimals": 0}
	v.Overrides = append([]Override{
		{"survival", whole}, {"low", whole}, {"high", whole}, {"hours", object{"min": 0, "max": 48}},
	}, overrides...)
	return v
}

// week is a heat map of weekdays and hours: the stronger the color, the more, from the smallest value to the largest.
func week(color string) View {
	return View{
		Type: "heatmap",
		Options: object{
			"calculate": false, "cellGap": 1, "showValue": "never", "legend": object{"show": true},
			"tooltip": object{"mode": "single", "yHistogram": false, "showColorScale": true},
			"color": object{
				"mode": "opacity", "fill": color, "scale": "linear", "exponent": 0.5, "scheme": "Blues", "steps": 64,
				"reverse": false,
			},
			"yAxis":        object{"axisPlacement": "left", "reverse": true},
			"filterValues": object{},
			"rowsFrame":    object{"layout": "auto"},
			"exemplars":    object{"color": "rgba(255,0,255,0.7)"},
		},
		Defaults: object{"custom": object{"scaleDistribution": object{"type": "linear"}}},
	}
}

// stateTimeline shows the states of each series as colored bands.
func stateTimeline() View {
	return View{
		Type: "state-timeline",
		Options: object{
			"mergeValues": true, "showValue": "never", "alignValue": "left", "rowHeight": 0.85, "perPage": 0,
			"legend":  object{"showLegend": true, "displayMode": "list", "placement": "bottom"},
			"tooltip": object{"mode": "single", "sort": "none"},
		},
		Defaults: object{"custom": object{"lineWidth": 0, "fillOpacity": 85, "spanNulls": false, "insertNulls": false},
			"color": object{"mode": "palette-classic"}},
	}
}

// pagedStates shows the states of many series, rows per page. Other fields of the frames are left out.
func pagedStates(rows int, links []Link) View {
	v := linked(stateTimeline(), links)
	v.Options["perPage"] = rows
	return v
}

// statesOnly leaves out shares, whose names end in %.
var statesOnly = []Transformation{{ID: "filterFieldsByName", Options: object{"exclude": object{"pattern": "/ %$/"}}}}

// per100Hours shows a rate with its unit.
var per100Hours = object{"unit": "suffix:/ 100 h", "decimals": 1}

// wholeHours shows GPU hours if the title names the unit.
var wholeHours = object{"unit": "locale", "decimals": 0}

// shortDevices leaves out of the names of devices what nearly all have, and that they are on primary slots.
var shortDevices = []Transformation{renamed(`^(?:NVIDIA )?(?:GeForce )?(.*?)(?: · Real)?$`)}

// withoutDomains calls series of GPUs by the machine without its domain.
var withoutDomains = []Transformation{{ID: "renameByRegex", Options: object{"regex": `^([^\s.]+)[^\s]*(.*)$`,
	"renamePattern": "$1$2"}}}

// renamed calls series by the expression's group.
func renamed(pattern string) Transformation {
	return Transformation{ID: "renameByRegex", Options: object{"regex": pattern, "renamePattern": "$1"}}
}
