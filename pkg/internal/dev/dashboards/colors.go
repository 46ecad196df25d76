package dashboards

import (
	"maps"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// Hues that color-blind people can distinguish (Okabe and Ito), on light and on dark.
const (
	blue      = "#0072B2"
	vermilion = "#D55E00"
	green     = "#009E73"
	purple    = "#CC79A7"
	orange    = "#E69F00"
	grey      = "#8E8E8E"
)

// Colors that several panels share.
const (
	claimedColor   = blue
	backfillColor  = purple
	freeColor      = green
	drainedColor   = orange
	preventedColor = vermilion
	busyColor      = blue
	idleColor      = vermilion
)

// A category has the hue of its machines' ownership. Real slots are solid, backfill slots dashed and paler.
var (
	ownershipHues = map[pool.Ownership]string{
		pool.ResearcherOwned: blue, pool.CHTCOwned: vermilion, pool.OpenCapacity: green,
	}
	categories = []struct {
		category  pool.Category
		ownership pool.Ownership
		look      func(color string) object
	}{
		{pool.PriorityResearcher, pool.ResearcherOwned, fixed},
		{pool.PriorityCHTC, pool.CHTCOwned, fixed},
		{pool.Shared, pool.OpenCapacity, fixed},
		{pool.BackfillResearcher, pool.ResearcherOwned, dashed},
		{pool.BackfillCHTC, pool.CHTCOwned, dashed},
		{pool.BackfillOpen, pool.OpenCapacity, dashed},
	}
)

// categoryLooks are the looks of all categories under their own names.
func categoryLooks() (overrides []Override) {
	for _, c := range categories {
		overrides = append(overrides, Override{c.category.String(), c.look(ownershipHues[c.ownership])})
	}
	return overrides
}

// ownershipLooks are the looks of the categories of one side, which byOwnership has renamed.
func ownershipLooks(look func(color string) object) (overrides []Override) {
	for _, o := range []pool.Ownership{pool.ResearcherOwned, pool.CHTCOwned, pool.OpenCapacity} {
		overrides = append(overrides, Override{o.String(), look(ownershipHues[o])})
	}
	return overrides
}

// dashed is the look of a series of backfill slots.
func dashed(color string) object {
	look := fixed(color)
	look["custom.lineStyle"] = object{"fill": "dash", "dash": []int{6, 4}}
	look["custom.lineWidth"], look["custom.fillOpacity"] = 2, 20
	return look
}

// byOwnership calls categories of one side by their ownership.
var byOwnership = []Transformation{renamed(`^(?:Prioritized|Backfill) \((.*)\)$`)}

// deviceHues are the devices' colors, in all panels; other devices get one by their names. The first expression that
// fits counts.
var deviceHues = []struct{ device, color string }{
	{`B200`, "#332288"},
	{`H200 NVL`, "#88CCEE"}, {`H200`, "#0072B2"},
	{`H100`, "#009E73"},
	{`A100.*80GB`, "#D55E00"}, {`A100`, "#E6A27A"},
	{`L40S?`, "#CC79A7"},
	{`A40`, "#882255"},
	{`2080 Ti`, "#999933"}, {`1080 Ti`, "#DDCC77"},
	{`RTX 6000 Ada.*`, "#44AA99"}, {`Quadro RTX 6000`, "#8E8E8E"}, {`A4000`, "#AA4499"}, {`P100`, "#B0A090"},
}

// deviceColors color series of devices.
func deviceColors() (overrides []Override) {
	for _, d := range slices.Backward(deviceHues) { // of the overrides that fit a series the last counts
		overrides = append(overrides, Override{Field: like + `\b` + d.device + `\b`, Properties: fixed(d.color)})
	}
	return overrides
}

// machineTypeColors distinguish machines with an owner from open capacity.
var machineTypeColors = colors(map[string]string{
	pool.ResearcherOwned.MachineType(): ownershipHues[pool.ResearcherOwned],
	pool.OpenCapacity.MachineType():    ownershipHues[pool.OpenCapacity],
})

// backfillPoolColors are the colors that the same states have on the state timeline.
var backfillPoolColors = colors(map[string]string{
	"Used (avg.)": backfillColor, "Available (avg.)": freeColor, "Taken (avg.)": claimedColor,
})

var causeColors = colors(map[string]string{
	"owner preemption": blue, "user or rank preemption": purple, "drain or maintenance": orange, "fault": vermilion,
	"unknown": grey,
})

// otherUsers are the users that have no series of their own.
var otherUsers = colors(map[string]string{query.Other: grey})

// byName gives a name the same color in all panels.
var byName = object{"mode": "palette-classic-by-name"}

func fixed(color string) object { return object{"color": object{"mode": "fixed", "fixedColor": color}} }

// colors fixes the colors of series.
func colors(byName map[string]string) []Override {
	var overrides []Override
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		overrides = append(overrides, Override{name, fixed(byName[name])})
	}
	return overrides
}

// state gives series of a metric a state's name and color.
func state(metric, name, color string) Override {
	look := fixed(color)
	look["displayName"] = name
	return Override{metric, look}
}

// levels are thresholds: a base color, then pairs of a value and the color from that value up. Only what an alert rule
// watches has them.
func levels(base string, steps ...any) object {
	list := []object{{"color": base, "value": nil}}
	for i := 0; i+1 < len(steps); i += 2 {
		list = append(list, object{"color": steps[i+1], "value": steps[i]})
	}
	return object{"mode": "absolute", "steps": list}
}
