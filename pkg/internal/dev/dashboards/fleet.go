package dashboards

import (
	"fmt"
	"time"

	"github.com/chtc/gpureports/pkg/query"
)

// FleetSourceUID is the data source of many pools that their alert rules query: the one in provisioning/fleet.
const FleetSourceUID = "gpureports-fleet"

// fleetTag marks dashboards on many pools, to which links on a pool's dashboards must not pass their data source.
const fleetTag = "gpureports-fleet"

// toPools is the menu that leads to the dashboards of a pool, which choose a data source of their own.
var toPools = object{
	"type": "dashboards", "title": "Dashboards of a pool", "tags": []string{tag}, "asDropdown": true,
	"icon": "external link", "tooltip": "", "url": "", "keepTime": true, "includeVars": false, "targetBlank": false,
}

// factsLate is the age of a pool's newest facts, in hours, from which its publishing counts as stopped.
const factsLate = 4

const poolList = "Pools"

// Fleet are the dashboards that a data source of many pools answers.
func Fleet() []Dashboard { return []Dashboard{fleetOverview()} }

// FleetRules are the alert rules that it answers.
func FleetRules() []Rule {
	return []Rule{{
		UID: "gpureports-facts-late", Title: "Facts of a pool are late",
		Queries:   over(day, ask("allocation", "pools").of("ageHours")),
		Condition: fmt.Sprintf("$A > %d", factsLate), For: 15 * time.Minute, Severity: "warning", NoData: alerting,
		Failed:      alerting,
		Summary:     `{{ with $values.A }}{{ $labels.pool }}: facts {{ humanize .Value }}h old{{ else }}No facts{{ end }}`,
		Description: "Check gpureports publish, the collector of the pool, and Elasticsearch.",
		Dashboard:   "gpureports-fleet", Panel: poolList,
	}}
}

func fleetOverview() Dashboard {
	chosen := query.Filter{Pools: []string{"$pool"}, Devices: []string{"$device"}}
	return Dashboard{
		UID: "gpureports-fleet", File: "fleet", Title: "GPU fleet", Fleet: true,
		Description: "Many pools side by side, from the facts that they publish",
		From:        "now-7d",
		Variables: []Variable{
			{Name: "pool", Label: "Pool", Dimension: "pool", Description: "Pools that publish facts"},
			{Name: "device", Label: "Device", Dimension: "device", Description: "GPU models",
				Filter: query.Filter{Pools: []string{"$pool"}}},
		},
		Rows: []Row{
			{Title: "Side by side", Panels: sideBySide(chosen)},
			{Title: "Trends", Panels: fleetTrends(chosen)},
			{Title: "Hours", Panels: []Panel{panel("Allocated % of each hour", 24, 9, "Share of the available GPUs of each "+
				"pool that jobs hold on primary slots: a row for each pool, a cell for each hour (or for several hours in longer "+
				"time ranges).",
				ask("allocation", "timeseries").by("pool").of("allocatedPercent").where(real(chosen)),
				hourMap(), renamed(`^(.*?)(?: · Real)?$`))}},
			{Title: "Users", Panels: []Panel{
				panel("GPU hours of the largest users", 24, 9, "GPU hours in all pools: the ten users with the most, and all "+
					"others together.",
					ask("userHours", "timeseries").by("user").where(chosen),
					bars(otherUsers...)).points(60),
			}},
		},
	}
}

// sideBySide are tables with a row for each pool.
func sideBySide(chosen query.Filter) []Panel {
	return []Panel{
		panel(poolList, 24, 7, "How far the facts of each pool reach, and the share of the time range that they cover. If "+
			"they are older than a few hours, the pool has stopped publishing.",
			ask("allocation", "pools").where(query.Filter{Pools: []string{"$pool"}}),
			fleetTable(Override{"zone", atLeast(150)}, Override{"since", minutes}, Override{"through", minutes},
				Override{"completeThrough", minutes}, Override{"ageHours", with(with(colouredText, "thresholds",
					levels("text", factsLate, vermilion)), "custom.width", 110)}, Override{"coveragePercent", percentBar})),
		panel("Allocation by pool", 11, 9, "GPUs of each pool on primary slots, on average over the time range.",
			ask("allocation", "summary").by("pool").of("allocatedPercent", "allocated", "available", "free").
				where(real(chosen)).withoutTotals(),
			sortedBy(fleetTable(Override{"allocatedPercent", percentBar}, hidden("slots")), "Available (avg.)")),
		panel("GPU hours by pool and device", 13, 9, "GPU hours that jobs held on all slots, how much of that was "+
			"measured, and how busy the GPUs were, according to HTCondor's reports.",
			ask("utilization", "summary").by("pool", "device").
				of("heldGpuHours", "measuredPercent", "utilizationPercent").where(chosen).withoutTotals(),
			sortedBy(fleetTable(Override{"device", with(atLeast(150), "mappings", shortDevice)},
				Override{"heldGpuHours", amountBar}, Override{"measuredPercent", width(95)},
				Override{"utilizationPercent", width(95)}), "Held GPU hours")),
	}
}

// fleetTrends are series with a line for each pool.
func fleetTrends(chosen query.Filter) []Panel {
	withoutSlots := []Transformation{renamed(`^(.*?)(?: · Real)?$`)}
	return []Panel{
		panel("Allocated % by pool", 12, 8, "Share of the available GPUs of each pool that jobs hold on primary slots.",
			ask("allocation", "timeseries").by("pool").of("allocatedPercent").where(real(chosen)),
			percent(ratios()), withoutSlots...),
		panel("Free GPUs by pool", 12, 8, "GPUs that no job holds and on which jobs may start, stacked by pool.",
			ask("allocation", "timeseries").by("pool").of("free").where(real(chosen)),
			areas(), withoutSlots...),
		panel("GPU hours by pool", 12, 8, "GPU hours that users held on all slots, stacked by pool.",
			ask("userHours", "timeseries").by("pool").where(chosen),
			bars()).points(60),
		panel("Utilization by pool", 12, 8, "Share of the held GPU hours in which GPUs computed, according to HTCondor's "+
			"reports.",
			ask("utilization", "timeseries").by("pool").of("utilizationPercent").where(chosen),
			percent(ratios())),
		panel("Evictions by pool", 24, 8, "Evictions of backfill jobs per 100 GPU hours that they held, in each pool.",
			ask("evictions", "timeseries").by("pool").of("ratePer100GpuHours").where(chosen),
			ratios()).points(60),
	}
}

// coloredText shows a number in the color of its threshold.
var colouredText = object{"custom.cellOptions": object{"type": "color-text"}, "color": object{"mode": "thresholds"}}

// hourMap shows a row for each series and a cell for each point, in a stronger blue where it is more of 100. The scale
// of colors begins below zero, because its first color is that of the panel, as of cells without a value.
func hourMap() View {
	return View{
		Type: "status-history",
		Options: object{
			"showValue": "never", "rowHeight": 0.9, "colWidth": 0.98, "perPage": 0,
			"legend":  object{"showLegend": false, "displayMode": "list", "placement": "bottom"},
			"tooltip": object{"mode": "single", "sort": "none"},
		},
		Defaults: object{"custom": object{"lineWidth": 0, "fillOpacity": 90}, "min": -25, "max": 100,
			"color": object{"mode": "continuous-blues"}},
	}
}

// fleetTable is a table without the columns of a pool's tables, whose names lead to the pool's dashboards.
func fleetTable(overrides ...Override) View {
	v := table()
	v.Overrides = overrides
	return v
}
