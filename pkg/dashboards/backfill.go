package dashboards

import (
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

func backfill() Dashboard {
	chosen := query.Filter{Devices: []string{"$device"}, Machines: []string{"$machine"}, Ownerships: []string{"$ownership"}}
	safe := []string{"hours90", "hours75", "hours50"}
	vacancies := []string{"count", "meanHours", "medianHours", "minHours", "maxHours", "sdHours", "gpuHours", "censored", "unknownStart", "kmMedianHours", "restrictedMeanHours"}
	rates := []string{"runs", "evictions", "completed", "removed", "held", "ambiguous", "gpuHours", "ratePer100GpuHours", "rateLow", "rateHigh", "evictedPercent", "medianHoursToEviction", "lostGpuHours", "lostPercent"}
	vacancyCurve := ask("backfillAvailability", "survival").by("machineType").where(chosen)
	vacancyCurve.Duration = "vacancy"
	usedByDevice := ask("backfillAvailability", "timeseries").by("device").of("usedPercent").where(chosen)
	usedByDevice.Bucket = "window"
	return Dashboard{
		UID: "gpureports-backfill", Title: "GPU backfill",
		Description: "How many GPUs backfill jobs can have, how long a GPU stays free and how long it can be kept, and how often jobs are evicted",
		From:        "now-30d",
		Variables: []Variable{
			ownershipVariable, deviceVariable,
			{Name: "machine", Label: "Machine", Dimension: "machine", Description: "Machines", Filter: query.Filter{Ownerships: []string{"$ownership"}, Devices: []string{"$device"}}},
		},
		Annotations: []Annotation{gaps, {Name: "Evictions", Color: "red", Hidden: true, Query: ask("evictions", "annotations").where(chosen)}},
		Rows: []Row{
			{"Supply", []Panel{
				{
					Title: "Backfill pool", Width: 12, Height: 11,
					Description: "GPUs of the backfill pool, on average: used by backfill jobs, available to them, and taken by jobs of their owners.",
					Query:       ask("backfillAvailability", "timeseries").by().of("used", "available", "taken").where(chosen),
					View:        areas(colors(map[string]string{"Used (avg.)": "purple", "Available (avg.)": "green", "Taken (avg.)": "blue"})...),
				},
				{
					Title: "Utilisation by device", Width: 12, Height: 11,
					Description:     "Of the GPUs that backfill jobs could have over the time range, the share that they used.",
					Query:           usedByDevice,
					View:            gaugeOfPercent("left"),
					Transformations: shortDevices,
				},
				{
					Title: "Utilisation by hour of the week", Width: 12, Height: 8,
					Description: "Share of the backfill GPUs in use, by weekday and local hour (of the data source's time zone).",
					Query:       ask("backfillAvailability", "hourOfWeek").of("usedPercent").where(chosen),
					View:        week("Oranges"),
				},
				{
					Title: "Available GPUs by hour of the week", Width: 12, Height: 8,
					Description: "GPUs that a backfill job could have at once, by weekday and local hour.",
					Query:       ask("backfillAvailability", "hourOfWeek").of("available").where(chosen),
					View:        week("Greens"),
				},
			}},
			{"How long does a GPU stay free?", []Panel{
				{
					Title: "Availability by device", Width: 24, Height: 9,
					Description: "Periods in which a GPU waited for a backfill job. Mean to GPU hours are of complete periods that ended in the time range; censored ones go on or were cut by a gap; the Kaplan–Meier figures use these too.",
					Query:       ask("backfillAvailability", "summary").by("device").of(vacancies...).where(chosen),
					View:        metrics(),
				},
				{
					Title: "Availability by machine type", Width: 14, Height: 9,
					Description: "The same for machines of researchers and CHTC (Priority) and for open capacity (Shared).",
					Query:       ask("backfillAvailability", "summary").by("machineType").of("count", "meanHours", "medianHours", "gpuHours", "available", "used", "taken", "usedPercent").where(chosen),
					View:        metrics(),
				},
				{
					Title: "How long a GPU stays free", Width: 10, Height: 9,
					Description: "Share of the free periods that go on beyond an age, by machine type (Kaplan–Meier, with 95 % intervals). They end when a job takes the GPU or the slot goes away.",
					Query:       vacancyCurve,
					View:        curvesByMachineType(),
				},
			}},
			{"How long can it be kept?", []Panel{
				{
					Title: "How long a backfill GPU can be kept", Width: 12, Height: 11,
					Description: "Share of GPUs that their owners have not taken back by an age, counted from when the GPU came to the backfill pool, by machine type (Kaplan–Meier, with 95 % intervals).",
					Query:       ask("backfillAvailability", "survival").by("machineType").where(chosen),
					View:        curvesByMachineType(),
				},
				{
					Title: "Safe hours by device", Width: 12, Height: 11,
					Description: "For how many hours 90, 75 and 50 % of the GPUs of a model can be kept before their owners take them back.",
					Query:       ask("backfillAvailability", "summary").by("device").of(safe...).where(chosen).withoutTotals(),
					View:        table(),
				},
				{
					Title: "Safe hours by machine type", Width: 12, Height: 7,
					Description: "For how many hours 90, 75 and 50 % of the GPUs can be kept before their owners take them back. None: fewer were ever taken back.",
					Query:       ask("backfillAvailability", "summary").by("machineType").of(safe...).where(chosen).withoutTotals(),
					View:        table(),
				},
				{
					Title: "Transitions", Width: 12, Height: 7,
					Description: "How often a GPU went from the state at the left to the one above, between one snapshot and the next. Used to used: another job.",
					Query:       ask("backfillAvailability", "transitions").by().of("count").where(chosen),
					View:        transitionMatrix(),
					Transformations: []Transformation{
						{"groupingToMatrix", object{"columnField": "to", "rowField": "from", "valueField": "count", "emptyValue": "null"}},
					},
				},
			}},
			{"Evictions", []Panel{
				{
					Title: "Eviction rate over time", Width: 12, Height: 9, MaxDataPoints: 60,
					Description: "Evictions of backfill jobs per 100 backfill GPU hours, by machine type. Without a job source it is a lower bound.",
					Query:       ask("evictions", "timeseries").by("machineType").of("ratePer100GpuHours").where(chosen),
					View:        lines(machineTypeColors...),
				},
				{
					Title: "Evictions by cause", Width: 12, Height: 9, MaxDataPoints: 60,
					Description: "Evictions of backfill jobs, by what is known of their cause.",
					Query:       ask("evictions", "timeseries").by("cause").of("evictions").where(chosen),
					View:        bars(causeColors...),
				},
				{
					Title: "Evictions by device", Width: 24, Height: 9,
					Description: "Runs of backfill jobs that overlap the time range, what became of them, evictions per 100 GPU hours with their 95 % interval, and the GPU hours of evicted runs (an upper bound of the loss where jobs checkpoint). Ambiguous ends are never counted as evictions.",
					Query:       ask("evictions", "summary").by("device").of(rates...).where(chosen),
					View:        metrics(),
				},
				{
					Title: "Evictions by evidence and cause", Width: 12, Height: 9,
					Description: "What evictions rest on: a job ad, a takeover by an owner's job seen in the snapshots, or the same job running again.",
					Query:       ask("evictions", "summary").by("evidence", "cause").of("evictions", "ratePer100GpuHours", "medianHoursToEviction", "lostGpuHours").where(chosen),
					View:        metrics(),
				},
				{
					Title: "How long backfill jobs run before eviction", Width: 12, Height: 9,
					Description:     "Share of the runs that have not been evicted by an age, by device; a run that completes can no longer be evicted (Aalen–Johansen).",
					Query:           ask("evictions", "survival").by("device").of("survival").where(chosen),
					View:            curves(),
					Transformations: shortDevices,
				},
				{
					Title: "Eviction rate by hour of the week", Width: 12, Height: 8,
					Description: "Evictions per 100 backfill GPU hours, by weekday and local hour.",
					Query:       ask("evictions", "hourOfWeek").of("ratePer100GpuHours").where(chosen),
					View:        week("Reds"),
				},
				{
					Title: "Lost GPU hours", Width: 12, Height: 8, MaxDataPoints: 60,
					Description:     "GPU hours of evicted runs within the time range, by device: an upper bound where jobs checkpoint.",
					Query:           ask("evictions", "timeseries").by("device").of("lostGpuHours").where(chosen),
					View:            bars(),
					Transformations: shortDevices,
				},
				{
					Title: "Lost GPU hours by user", Width: 24, Height: 9,
					Description: "Whose backfill runs were evicted, and how many GPU hours that cost at most; the largest first.",
					Query:       ask("evictions", "summary").by("user").of("runs", "evictions", "ratePer100GpuHours", "gpuHours", "lostGpuHours", "lostPercent").where(chosen).withoutTotals(),
					View:        sortedBy(table(), "Lost GPU hours"),
				},
				{
					Title: "Eviction events", Width: 24, Height: 12,
					Description: "Every eviction: when, where, whose job, how long it had run, its cause, what that rests on, and whose job took over.",
					Query:       ask("evictions", "events").where(chosen),
					View:        list(),
				},
			}},
		},
	}
}

// curvesByMachineType draws both machine types with their intervals as bands.
func curvesByMachineType() View {
	v := curves()
	for _, t := range []struct{ name, color string }{{pool.ResearcherOwned.MachineType(), "blue"}, {pool.OpenCapacity.MachineType(), "green"}} {
		for _, field := range []string{t.name, t.name + " · 95 % low", t.name + " · 95 % high"} {
			v.Overrides = append(v.Overrides, Override{field, object{"color": object{"mode": "fixed", "fixedColor": t.color}}})
		}
	}
	return v
}

var causeColors = colors(map[string]string{"owner preemption": "blue", "user or rank preemption": "purple", "drain or maintenance": "orange", "fault": "red", "unknown": "text"})

func transitionMatrix() View {
	var names []Override
	for _, state := range []string{"available", "used", "taken", "blocked", "absent"} {
		names = append(names, Override{state, object{"displayName": state, "unit": "locale"}}) // or each would be called as the count
	}
	v := table(names...)
	v.Defaults["custom"].(object)["cellOptions"] = object{"type": "color-background", "mode": "basic"}
	v.Defaults["custom"].(object)["filterable"] = false
	v.Defaults["color"] = object{"mode": "continuous-blues"}
	return v
}

// sortedBy shows the rows with the largest numbers of a column first.
func sortedBy(v View, column string) View {
	v.Options["sortBy"] = []object{{"displayName": column, "desc": true}}
	return v
}
