package dashboards

import (
	"maps"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// Hues that colour-blind people can tell apart (Okabe and Ito), on light and on dark.
const (
	blue      = "#0072B2"
	vermilion = "#D55E00"
	green     = "#009E73"
	purple    = "#CC79A7"
	orange    = "#E69F00"
	grey      = "#8E8E8E"
)

// Colours of what is told in several panels.
const (
	claimedColor   = blue
	backfillColor  = purple
	freeColor      = green
	drainedColor   = orange
	preventedColor = vermilion
)

// A category has the hue of its machines' ownership. Real slots are solid, backfill slots dashed and paler.
var (
	ownershipHues = map[pool.Ownership]string{
		pool.ResearcherOwned: blue, pool.CHTCOwned: vermilion, pool.OpenCapacity: green,
	}
	categoryLooks = slices.Concat(
		realLooks(pool.PriorityResearcher, pool.ResearcherOwned),
		realLooks(pool.PriorityCHTC, pool.CHTCOwned),
		realLooks(pool.Shared, pool.OpenCapacity),
		backfillLooks(pool.BackfillResearcher, pool.ResearcherOwned),
		backfillLooks(pool.BackfillCHTC, pool.CHTCOwned),
		backfillLooks(pool.BackfillOpen, pool.OpenCapacity),
	)
)

func realLooks(c pool.Category, o pool.Ownership) []Override {
	return []Override{{c.String(), fixed(ownershipHues[o])}}
}

func backfillLooks(c pool.Category, o pool.Ownership) []Override {
	look := fixed(ownershipHues[o])
	look["custom.lineStyle"] = object{"fill": "dash", "dash": []int{6, 4}}
	look["custom.lineWidth"], look["custom.fillOpacity"] = 2, 20
	return []Override{{c.String(), look}}
}

// machineTypeColors tell machines with an owner from open capacity.
var machineTypeColors = colors(map[string]string{
	pool.ResearcherOwned.MachineType(): ownershipHues[pool.ResearcherOwned],
	pool.OpenCapacity.MachineType():    ownershipHues[pool.OpenCapacity],
})

// backfillPoolColors are those of the same states on the state timeline.
var backfillPoolColors = colors(map[string]string{
	"Used (avg.)": backfillColor, "Available (avg.)": freeColor, "Taken (avg.)": claimedColor,
})

var causeColors = colors(map[string]string{
	"owner preemption": blue, "user or rank preemption": purple, "drain or maintenance": orange, "fault": vermilion,
	"unknown": grey,
})

// otherUsers are the users that have no series of their own.
var otherUsers = colors(map[string]string{query.Other: grey})

// byName gives a name the same colour in all panels.
var byName = object{"mode": "palette-classic-by-name"}

func fixed(color string) object { return object{"color": object{"mode": "fixed", "fixedColor": color}} }

// colors fixes the colours of series.
func colors(byName map[string]string) []Override {
	var overrides []Override
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		overrides = append(overrides, Override{name, fixed(byName[name])})
	}
	return overrides
}

// state gives series of a metric a state's name and colour.
func state(metric, name, color string) Override {
	look := fixed(color)
	look["displayName"] = name
	return Override{metric, look}
}

// levels are thresholds: a base colour, then pairs of a value and the colour from there on. Only what an alert rule watches
// has them.
func levels(base string, steps ...any) object {
	list := []object{{"color": base, "value": nil}}
	for i := 0; i+1 < len(steps); i += 2 {
		list = append(list, object{"color": steps[i+1], "value": steps[i]})
	}
	return object{"mode": "absolute", "steps": list}
}
