package query

import "slices"

// Kind is one kind of question, a queryType.
type Kind struct {
	Name           string
	DefaultGroupBy []string // of a query that names none, where the view can group
	Views          []View   // the first is the default
}

// View is one way to answer a kind's question.
type View struct {
	Name           string   `json:"-"`
	GroupBy        []string `json:"groupBy"`        // groupings that it knows
	Metrics        []string `json:"metrics"`        // metrics that it knows
	DefaultMetrics []string `json:"defaultMetrics"` // those of a query that names none
	Filters        []string `json:"filters"`        // fields of the filter that it accepts
	Options        []string `json:"options"`        // further fields of the query that mean something here
	Alerting       string   `json:"alerting"`       // AlertSeries, AlertSingleMetric or AlertNone
	Frame          string   `json:"frame"`
}

// What of a view an alert rule can use.
const (
	AlertSeries       = "series"        // every series
	AlertSingleMetric = "single-metric" // the table, when exactly one metric is named
	AlertNone         = "none"
)

// Shapes of answers.
const (
	FrameSeries        = "timeseries-multi"
	FrameTable         = "table"
	FrameStateTimeline = "state-timeline"
	FrameSurvival      = "survival"
	FrameHeatMap       = "heatmap-cells"
)

var (
	allocationGroups  = []string{"category", "slots", "device", "memory", "machine", "ownership", "project"}
	allocationMetrics = []string{"allocatedPercent", "allocated", "available", "free", "unclaimed", "drained", "prevented"}
	healthMetrics     = []string{"snapshotAgeSeconds", "coveragePercent", "gpusSeen", "gpusLost", "jobsLagSeconds", "linkRate", "clockErrorSeconds"}
	userHoursMetrics  = []string{"gpuHours", "percentOfTotal"}
	backfillGroups    = []string{"category", "device", "ownership", "machineType", "machine"}
	backfillMetrics   = []string{"count", "meanHours", "medianHours", "minHours", "maxHours", "sdHours", "gpuHours", "censored", "unknownStart", "kmMedianHours", "restrictedMeanHours", "available", "used", "taken", "usedPercent", "hours90", "hours75", "hours50"}
	evictionGroups    = []string{"category", "device", "ownership", "machineType", "machine", "user", "cause", "evidence"}
	evictionMetrics   = []string{"runs", "evictions", "completed", "removed", "held", "running", "lost", "ambiguous", "unseen", "gpuHours", "ratePer100GpuHours", "rateLow", "rateHigh", "evictedPercent", "medianHoursToEviction", "lostGpuHours", "lostPercent"}
	demandGroups      = []string{"user", "project", "schedd", "gpus", "gpuMemory"}
	demandMetrics     = []string{"waits", "started", "left", "medianWaitHours", "p90WaitHours", "meanWaitHours", "expansionFactor", "waitingJobs", "waitingGpus", "waitingUsers", "oldestHours", "freeWhileWaiting"}
	survivalMetrics   = []string{"survival", "low", "high", "atRisk"}

	gpuFilters     = []string{"categories", "slots", "devices", "machines", "ownerships", "projects"}
	userFilters    = append(slices.Clone(gpuFilters), "users")
	demandFilters  = []string{"users", "projects", "schedds", "gpus", "gpuMemory"}
	machineFilters = []string{"devices", "machines", "ownerships", "projects", "idle"}

	seriesOptions = []string{"bucket", "timezone", "completeBucketsOnly", "includeOldDevices", "limit"}
	tableOptions  = []string{"includeOldDevices", "totals", "limit"}
	listOptions   = []string{"includeOldDevices", "limit"}
)

// Kinds are the kinds of question, with everything that can be asked: the table "Query model" of the design.
var Kinds = []Kind{
	{"allocation", []string{"category"}, []View{
		series("timeseries", allocationGroups, allocationMetrics, userFilters),
		table("summary", allocationGroups, allocationMetrics, userFilters),
		list("current", userFilters),
		{Name: "stateTimeline", Filters: gpuFilters, Options: listOptions, Alerting: AlertNone, Frame: FrameStateTimeline},
		list("machines", machineFilters),
		{Name: "health", Metrics: healthMetrics, DefaultMetrics: healthMetrics, Alerting: AlertSingleMetric, Frame: FrameTable},
		{Name: "annotations", Options: []string{"limit"}, Alerting: AlertNone, Frame: FrameTable},
	}},
	{"userHours", []string{"category"}, []View{
		table("summary", []string{"category", "device", "machine", "project"}, userHoursMetrics, userFilters),
		series("timeseries", []string{"user", "category", "device", "machine", "project"}, userHoursMetrics[:1], userFilters),
	}},
	{"backfillAvailability", nil, []View{
		table("summary", backfillGroups, backfillMetrics, gpuFilters),
		series("timeseries", backfillGroups, []string{"available", "used", "taken", "usedPercent", "ended", "meanHours"}, gpuFilters),
		{Name: "periods", Filters: gpuFilters, Options: []string{"includeOldDevices", "duration", "limit"}, Alerting: AlertNone, Frame: FrameTable},
		{Name: "transitions", GroupBy: backfillGroups, Metrics: []string{"count"}, DefaultMetrics: []string{"count"}, Filters: gpuFilters, Options: listOptions, Alerting: AlertSingleMetric, Frame: FrameTable},
		{Name: "survival", GroupBy: backfillGroups, Metrics: survivalMetrics, DefaultMetrics: survivalMetrics[:3], Filters: gpuFilters, Options: []string{"includeOldDevices", "duration", "limit"}, Alerting: AlertNone, Frame: FrameSurvival},
		heatMap("hourOfWeek", []string{"usedPercent", "available"}, gpuFilters),
	}},
	{"evictions", nil, []View{
		table("summary", evictionGroups, evictionMetrics, userFilters),
		series("timeseries", evictionGroups[:7], []string{"evictions", "ratePer100GpuHours", "lostGpuHours", "runs"}, userFilters),
		list("events", userFilters),
		list("runs", userFilters),
		{Name: "survival", GroupBy: evictionGroups[:4], Metrics: survivalMetrics, DefaultMetrics: survivalMetrics[:3], Filters: userFilters, Options: listOptions, Alerting: AlertNone, Frame: FrameSurvival},
		heatMap("hourOfWeek", []string{"ratePer100GpuHours", "evictions"}, userFilters),
		list("annotations", userFilters),
	}},
	{"demand", nil, []View{
		{Name: "timeseries", GroupBy: demandGroups, Metrics: []string{"waitingGpus", "waitingJobs", "waitingUsers", "started", "freeWhileWaiting"}, DefaultMetrics: []string{"waitingGpus"}, Filters: demandFilters,
			Options: []string{"bucket", "timezone", "completeBucketsOnly", "limit"}, Alerting: AlertSeries, Frame: FrameSeries},
		{Name: "summary", GroupBy: demandGroups, Metrics: demandMetrics, DefaultMetrics: demandMetrics, Filters: demandFilters, Options: []string{"totals", "limit"}, Alerting: AlertSingleMetric, Frame: FrameTable},
		{Name: "waiting", Filters: demandFilters, Options: []string{"limit"}, Alerting: AlertNone, Frame: FrameTable},
		{Name: "survival", GroupBy: []string{"user", "project", "gpus", "gpuMemory"}, Metrics: survivalMetrics, DefaultMetrics: survivalMetrics[:3], Filters: demandFilters, Options: []string{"limit"}, Alerting: AlertNone, Frame: FrameSurvival},
		{Name: "hourOfWeek", Metrics: []string{"waitingGpus"}, DefaultMetrics: []string{"waitingGpus"}, Filters: demandFilters, Options: []string{"timezone"}, Alerting: AlertNone, Frame: FrameHeatMap},
	}},
}

func series(name string, groupBy, metrics, filters []string) View {
	return View{Name: name, GroupBy: groupBy, Metrics: metrics, DefaultMetrics: metrics[:1], Filters: filters, Options: seriesOptions, Alerting: AlertSeries, Frame: FrameSeries}
}

func table(name string, groupBy, metrics, filters []string) View {
	return View{Name: name, GroupBy: groupBy, Metrics: metrics, DefaultMetrics: metrics, Filters: filters, Options: tableOptions, Alerting: AlertSingleMetric, Frame: FrameTable}
}

func list(name string, filters []string) View {
	return View{Name: name, Filters: filters, Options: listOptions, Alerting: AlertNone, Frame: FrameTable}
}

func heatMap(name string, metrics, filters []string) View {
	return View{Name: name, Metrics: metrics, DefaultMetrics: metrics[:1], Filters: filters, Options: []string{"timezone", "includeOldDevices"}, Alerting: AlertNone, Frame: FrameHeatMap}
}

// Dimensions are the dimensions whose values can be listed for editors and variables.
var Dimensions = []string{"category", "slots", "device", "machine", "ownership", "project", "user", "memory"}

// Durations are what curves and periods of backfillAvailability can measure.
var Durations = []string{"tenure", "vacancy"}

func kindOf(name string) *Kind {
	if i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name }); i >= 0 {
		return &Kinds[i]
	}
	return nil
}

func (k *Kind) view(name string) *View {
	if i := slices.IndexFunc(k.Views, func(v View) bool { return v.Name == name }); i >= 0 {
		return &k.Views[i]
	}
	return nil
}
