package dashboards

import "slices"

// table shows a table as it comes; without rows it says "None", and in a cell without a value there is a dash. Numbers
// are as wide as they need, so that texts share the rest: long names give way first. Only columns that viewers search
// have a filter.
func table(overrides ...Override) View {
	return View{
		Type:    "table",
		Options: object{"showHeader": true, "cellHeight": "sm", "frameIndex": 0},
		Defaults: object{"custom": object{
			"align": "auto", "cellOptions": object{"type": "auto"}, "filterable": false, "inspect": false, "minWidth": 80,
			"width": 80, "wrapHeaderText": true,
		}, "noValue": "None"},
		Overrides: slices.Concat([]Override{{like + ".*", object{"noValue": "–"}}}, textColumns, overrides),
	}
}

// textColumns gives columns of texts room, and links to those that name something that a dashboard shows.
var textColumns = []Override{
	{"category", atLeast(130)},
	{"machine", searched(with(linkedTo(toMachine, 110), "mappings", shortMachine))},
	{"user", searched(linkedTo(toUser, 135))},
	{"device", searched(with(linkedTo(toDevice, 150), "mappings", shortDevice))},
	{"project", with(noProject, "links", toOwner.ofRows())},
	{"jobProject", atLeast(130)},
	{"job", with(atLeast(125), "mappings", shortJob)},
	{"cause", atLeast(130)},
}

// longTitles are the widths of metrics whose titles have long words.
var longTitles = map[string]int{
	"available": 100, "unclaimed": 100, "prevented": 100, "checkpointedPercent": 115, "completed": 95, "ambiguous": 95,
	"expansionFactor": 95,
	"waitingGpus":     105, "ratioLow": 90, "ratioHigh": 90,
}

// Names are shown without what nearly all have: machines without their domain, devices without their maker, jobs as the
// access point and the job's number there.
var (
	shortMachine = shortened(`^([^.]+)\..*$`, "$1")
	shortDevice  = shortened(`^NVIDIA (?:GeForce )?(.*)$`, "$1")
	shortJob     = shortened(`^([^.#]+)[^#]*#([^#]+).*$`, "$1#$2")
)

func shortened(pattern, text string) []object {
	return []object{{"type": "regex", "options": object{"pattern": pattern, "result": object{"text": text}}}}
}

// noProject says it where a machine has no project.
var noProject = object{"custom.width": 0, "custom.minWidth": 110, "mappings": []object{
	{"type": "special", "options": object{"match": "empty", "result": object{"text": "No project"}}},
}}

// list shows a table of things: machines, GPUs, runs, events. What none of them has is left out.
func list(overrides ...Override) View {
	v := table(slices.Concat([]Override{
		{"time", minutes},
		{"start", minutes},
		{"end", minutes},
		{"since", with(minutes, "displayName", "Since")},
		{"lastSeen", minutes},
		{"gpu", width(115)},
		{"gpuIds", width(130)},
		{"memoryGB", width(80)},
		{"machine", width(115)},
		{"job", width(145)},
		{"projects", noProject},
		{"devices", with(atLeast(140), "mappings", shortDevice)},
		{"takenOverBy", takenOver},
		{"ownership", width(140)},
		{"excludedReason", atLeast(150)},
		{"allocatedPercent", percentBar},
		{"state", searched(stateColors)},
		{"hours", width(80)},
		{"ranHours", width(80)},
		{"evidence", width(100)},
		{"gpus", width(75)},
		{empty, object{"custom.hideFrom.viz": true}},
	}, overrides)...)
	v.Defaults["custom"].(object)["inspect"] = true // a job's id is longer than its column
	return v
}

// listOfMachines is a list of machines as wide as a small screen: what the page of a machine adds is left out.
func listOfMachines(overrides ...Override) View {
	return list(slices.Concat([]Override{
		{"ownership", width(140)}, {"machine", width(105)}, {"projects", with(noProject, "custom.minWidth", 80)}, {"devices",
			object{"custom.minWidth": 110}},
		{"allocatedPercent", width(95)},
		{"excludedReason", atLeast(105)}, {"gpus", width(60)},
		hidden("drained"), hidden("drainedGpuHours"), hidden("wholeGpus"), hidden("migParts"),
		hidden("preventReasons"), hidden("preventState"), hidden("preventLastSeen"),
	}, overrides)...)
}

// stateShades are the hues of the state timeline, dark enough for Grafana's light text on them.
var stateShades = map[string]string{
	"Free": "#007A59", "Claimed": claimedColor, "Backfill": "#A3527F", "Drained": "#8F6400", "Prevented": "#B84E00",
	"Other": "#6B6B6B",
}

// stateColors color the cells of a column of states.
var stateColors = func() object {
	colors := object{}
	for state, shade := range stateShades {
		colors[state] = object{"color": shade}
	}
	return object{"custom.width": 105, "custom.cellOptions": object{"type": "color-background", "mode": "basic"},
		"mappings": []object{{"type": "value", "options": colors}}}
}()

// minutes shows a time without seconds.
var minutes = object{"custom.width": 140, "unit": "time:YYYY-MM-DD HH:mm"}

func width(pixels int) object { return object{"custom.width": pixels} }

// atLeast is the width below which a column does not shrink; it takes its part of what the others leave.
func atLeast(pixels int) object { return object{"custom.width": 0, "custom.minWidth": pixels} }

func linkedTo(l Link, pixels int) object {
	return with(atLeast(pixels), "links", l.ofRows())
}

// searched gives a column a filter.
func searched(column object) object {
	column["custom.filterable"] = true
	return column
}

// metrics is a table of metrics. Rows that add others up are set off, told by rowType; a table whose rows have links
// must not have any, for such rows lead nowhere.
func metrics(overrides ...Override) View {
	return table(append([]Override{{"rowType", object{
		"custom.cellOptions":  object{"type": "color-background", "mode": "basic", "applyToRow": true},
		"custom.hideFrom.viz": true,
		"color":               object{"mode": "thresholds"},
		"thresholds":          levels("transparent"),
		"mappings": []object{{"type": "value",
			"options": object{"total": object{"color": "rgba(128, 128, 128, 0.24)"}}}},
	}}}, overrides...)...)
}

// percentBar shows a column of percentages as bars.
var percentBar = object{
	"custom.cellOptions": object{"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}, "custom.width": 105,
	"min": 0, "max": 100, "color": object{"mode": "fixed", "fixedColor": blue},
}

// amountBar shows a column of amounts as bars, the largest of them in full. Grafana gives each bar the room that the
// longest text so far leaves, so only bars of a table with the largest amounts first have the same scale.
var amountBar = object{
	"custom.cellOptions": object{"type": "gauge", "mode": "basic", "valueDisplayMode": "text"},
	"custom.width":       120, "min": 0, "fieldMinMax": true, "unit": "locale",
	"decimals": 0, "color": object{"mode": "fixed", "fixedColor": blue},
}

// hidden takes a column out of a table.
func hidden(name string) Override { return Override{name, object{"custom.hideFrom.viz": true}} }

// sortedBy shows the rows with the largest numbers of a column first.
func sortedBy(v View, column string) View {
	v.Options["sortBy"] = []object{{"displayName": column, "desc": true}}
	return v
}

// lastPoints makes a table of series: one row each with its label, under the title, and its last point, under the name,
// the largest first; what rounds to nothing is left out.
func lastPoints(label, title, name string) []Transformation {
	return append([]Transformation{
		{ID: "reduce", Options: object{"reducers": []string{"lastNotNull"}, "mode": "seriesToRows", "labelsToFields": true,
			"includeTimeField": false}},
		including("Last *", "greaterOrEqual", 0.5),
		{ID: "filterFieldsByName", Options: object{"include": object{"names": []string{label, "Last *"}}}},
		organized(object{label: 0, "Last *": 1}, object{label: title, "Last *": name}),
		largestFirst(name),
	}, noneIfEmpty...)
}

// organized orders and renames columns, and leaves some out.
func organized(order, names object, without ...string) Transformation {
	excluded := object{}
	for _, name := range without {
		excluded[name] = true
	}
	return Transformation{ID: "organize", Options: object{"excludeByName": excluded, "indexByName": order,
		"renameByName": names}}
}

// joinedBy joins the frames by a column.
func joinedBy(column string) Transformation {
	return Transformation{ID: "joinByField", Options: object{"byField": column, "mode": "outer"}}
}

// noneIfEmpty leaves no frame of a table without rows, so that its panel says "None" instead of showing empty columns:
// it splits the rows by a column that has the same value in all of them.
var noneIfEmpty = []Transformation{
	calculated("All rows", "1", "*", "1"),
	{ID: "partitionByValues", Options: object{"fields": []string{"All rows"}, "keepFields": false,
		"naming": object{"asLabels": false}}},
}

// only is a filter of a list's rows that leaves "None" if none is left.
func only(column, matcher string, value any) []Transformation {
	return append([]Transformation{including(column, matcher, value)}, noneIfEmpty...)
}

func largestFirst(column string) Transformation {
	return Transformation{ID: "sortBy", Options: object{"fields": object{},
		"sort": []object{{"field": column, "desc": true}}}}
}

// grouped makes a row of each group of rows.
func grouped(fields object) Transformation {
	return Transformation{ID: "groupBy", Options: object{"fields": fields}}
}

// What the transformation groupBy does with a column: a group for each value, or how the rows of a group become one.
var groupKey = object{"operation": "groupby", "aggregations": []string{}}

func aggregated(how string) object {
	return object{"operation": "aggregate", "aggregations": []string{how}}
}

// usersOfGroups is a table of user hours with a row for each user of each group.
func usersOfGroups() View {
	return sortedBy(table(Override{"gpuHours", amountBar}, Override{"percentOfTotal", width(110)}, hidden("userCount")),
		"GPU hours")
}

// including leaves rows out whose value in a column does not match.
func including(column, matcher string, value any) Transformation {
	return Transformation{ID: "filterByValue", Options: object{"type": "include", "match": "any", "filters": []object{
		{"fieldName": column, "config": object{"id": matcher, "options": object{"value": value}}},
	}}}
}
