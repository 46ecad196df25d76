package query

import (
	"maps"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
)

// Kind describes a query type: its options, and how answers are shown. The editor, the documents and the report take
// their words from here.
type Kind struct {
	Name           string // its queryType
	Label          string
	Description    string
	DefaultGroupBy []string // what a query groups by that names nothing, if the view can group
	Views          []View   // the first is the default
	Columns        []Column // its metrics, and columns that mean something else here than in SharedColumns
}

// View is one way to answer a kind's question.
type View struct {
	Name           string   `json:"-"`
	Label          string   `json:"label"`
	Description    string   `json:"description"`
	GroupBy        []string `json:"groupBy"`        // groupings that it knows
	Metrics        []string `json:"metrics"`        // metrics that it knows
	DefaultMetrics []string `json:"defaultMetrics"` // those of a query that names none
	// Beside are the metrics that a query that names none has as well if it groups by something.
	Beside   map[string][]string `json:"beside,omitempty"`
	Filters  []string            `json:"filters"`  // fields of the filter that it accepts
	Options  []string            `json:"options"`  // further fields of the query that mean something here
	Alerting string              `json:"alerting"` // AlertSeries, AlertSingleMetric or AlertNone
	Frame    string              `json:"frame"`

	UserMetrics   []string  `json:"userMetrics,omitempty"`   // if only some metrics can be of chosen users: those
	Duration      string    `json:"duration,omitempty"`      // the default of the option
	JobHours      []float64 `json:"jobHours,omitempty"`      // the default of the option
	BucketMinutes int       `json:"bucketMinutes,omitempty"` // its shortest bucket; 0: none
	Sides         bool      `json:"-"`                       // without category its groups are distinguished by slots
	Always        string    `json:"-"`                       // a grouping that its answers have, named or not
	OfJobs        bool      `json:"-"`                       // its projects are those of jobs, not of machines
	// Groups are the only lists of groupings that are possible, the default first; nil: any.
	Groups  [][]string `json:"groups,omitempty"`
	Columns []Column   `json:"-"` // columns with another label here than in the kind
}

// The parts of a view that an alert rule can use.
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

// Filters of views.
var (
	GPUFilters = FilterBy("categories", "slots", "devices", "memories", "machines", "ownerships",
		"projects")
	UserFilters = append(slices.Clone(GPUFilters), "users")
)

// SurvivalMetrics are the metrics of curves.
var SurvivalMetrics = []string{"survival", "low", "high", "atRisk"}

// SeriesView is a view with a series for each group and metric.
func SeriesView(groupBy, metrics, filters []string) View {
	return View{
		Name: "timeseries", Label: "Time series", Description: "One series for each group",
		GroupBy: groupBy, Metrics: metrics, DefaultMetrics: metrics[:1], Filters: filters,
		Options:  []string{"bucket", "timezone", "completeBucketsOnly", "includeOldDevices", "legend", "last", "limit"},
		Alerting: AlertSeries, Frame: FrameSeries,
	}
}

// TableView is a view with a row for each group and a column for each metric.
func TableView(description string, groupBy, metrics, filters []string) View {
	return View{
		Name: "summary", Label: "Summary", Description: description,
		GroupBy: groupBy, Metrics: metrics, DefaultMetrics: metrics, Filters: filters,
		Options:  []string{"includeOldDevices", "totals", "previous", "limit"},
		Alerting: AlertSingleMetric, Frame: FrameTable,
	}
}

// ListView is a view that lists things without aggregating them.
func ListView(name, label, description string, filters []string) View {
	return View{
		Name: name, Label: label, Description: description, Filters: filters,
		Options: []string{"includeOldDevices", "last", "limit"}, Alerting: AlertNone, Frame: FrameTable,
	}
}

// HeatMapView is a view of a week, by hour and weekday.
func HeatMapView(metrics, filters []string) View {
	return View{
		Name: "hourOfWeek", Label: "Hour of week", Description: "Heat map: hour of the day by weekday",
		Metrics: metrics, DefaultMetrics: metrics[:1], Filters: filters,
		Options: []string{"timezone", "includeOldDevices"}, Alerting: AlertNone, Frame: FrameHeatMap,
	}
}

// SurvivalView is a view with a curve for each group.
func SurvivalView(description string, groupBy, filters []string) View {
	return View{
		Name: "survival", Label: "Survival", Description: description,
		GroupBy: groupBy, Metrics: SurvivalMetrics, DefaultMetrics: SurvivalMetrics[:3], Filters: filters,
		Options: []string{"includeOldDevices", "legend", "limit"}, Alerting: AlertNone, Frame: FrameSurvival,
	}
}

// With returns the view with more options.
func (v View) With(options ...string) View {
	v.Options = append(slices.Clone(v.Options), options...)
	return v
}

// Catalog is the kinds that there are.
type Catalog []Kind

// Kind returns the kind of a name, nil if there is none.
func (c Catalog) Kind(name string) *Kind {
	if i := slices.IndexFunc(c, func(k Kind) bool { return k.Name == name }); i >= 0 {
		return &c[i]
	}
	return nil
}

// View returns the view of a name, nil if there is none; "" is the default.
func (k *Kind) View(name string) *View {
	if name == "" {
		return &k.Views[0]
	}
	if i := slices.IndexFunc(k.Views, func(v View) bool { return v.Name == name }); i >= 0 {
		return &k.Views[i]
	}
	return nil
}

// Column returns how a column is shown in a view of the kind.
func (k *Kind) Column(view *View, name string) Column {
	for _, columns := range [][]Column{view.Columns, k.Columns, SharedColumns} {
		if i := slices.IndexFunc(columns, func(c Column) bool { return c.Name == name }); i >= 0 {
			return columns[i]
		}
	}
	return TextColumn(name, name, "")
}

// Asked is the kind and the view that a query names, nil if there is none. A query with an answer has both.
type Asked struct {
	Kind *Kind
	View *View
}

// Find returns the kind and the view of a query type. Errors are pool.BadQuery and list the valid names.
func (c Catalog) Find(queryType, name string) (a Asked, err error) {
	if a.Kind = c.Kind(queryType); a.Kind == nil {
		names := each(len(c), func(i int) string { return c[i].Name })
		if queryType == "" {
			return a, pool.BadQuery("queryType is required; valid values: %s", strings.Join(names, ", "))
		}
		return a, one("queryType", queryType, names)
	}
	if a.View = a.Kind.View(name); a.View == nil {
		names := each(len(a.Kind.Views), func(i int) string { return a.Kind.Views[i].Name })
		return a, one(a.Kind.Name+": view", name, names)
	}
	return a, nil
}

// TakesUsers reports whether the query, with these metrics, can be about chosen users.
func (a Asked) TakesUsers(metrics []string) bool {
	return a.View != nil && slices.Contains(a.View.Filters, "users") && a.View.ofUsers(metrics)
}

// Label is the label of a column in the answer.
func (a Asked) Label(column string) string { return a.Kind.Column(a.View, column).Label }

// Names returns which columns of the answer hold users or jobs. A column that does so in SharedColumns does so under
// any description.
func (a Asked) Names() map[string]NameKind {
	found := map[string]NameKind{}
	for _, columns := range [][]Column{SharedColumns, a.Kind.Columns, a.View.Columns} {
		for _, c := range columns {
			found[c.Name] = max(found[c.Name], c.Names)
		}
	}
	return found
}

// WithBeside returns the view with metrics that are among those of a query that names none only beside a grouping; ""
// is none: they must be named.
func (v View) WithBeside(grouping string, metrics ...string) View {
	v.Metrics = append(slices.Clone(v.Metrics), metrics...)
	if grouping != "" {
		v.Beside = maps.Clone(v.Beside)
		if v.Beside == nil {
			v.Beside = map[string][]string{}
		}
		v.Beside[grouping] = metrics
	}
	return v
}

// Durations are the measures of curves and periods of backfillAvailability.
var Durations = []string{"tenure", "vacancy"}

// Column describes a column of answers: a metric, a grouping, or a field of a list. Tables keep the column's own name;
// the readable one is only displayed.
type Column struct {
	Name, Label string
	// Unit is Grafana's. "locale" is a number with separators, never in thousands; "GPU h" stays GPU hours and never
	// becomes weeks.
	Unit        string
	Decimals    int // -1: as needed
	Description string
	Names       NameKind
}

// Metric is a column of numbers.
func Metric(name, label, unit string, decimals int, description string) Column {
	return Column{Name: name, Label: label, Unit: unit, Decimals: decimals, Description: description}
}

// TextColumn is a column of texts or times.
func TextColumn(name, label, description string) Column {
	return Column{Name: name, Label: label, Decimals: -1, Description: description}
}

// NameColumn is a column that names users or jobs: its values go through Plan.Shown.
func NameColumn(names NameKind, name, label, description string) Column {
	c := TextColumn(name, label, description)
	c.Names = names
	return c
}

// Units.
const (
	Count    = "locale"
	Percent  = "percent"
	Hours    = "h"
	Seconds  = "s"
	GPUHours = "GPU h"
	Share    = "percentunit"
)

// SharedColumns mean the same in all kinds: N = slices with a snapshot, D = covered hours.
var SharedColumns = append([]Column{
	TextColumn("rowType", "Row", ""),
	TextColumn("gpu", "GPU", "AssignedGPUs id"),
	Metric("gpus", "GPUs", Count, 0, "Number of GPUs"),
	TextColumn("gpuIds", "GPU ids", ""),
	Metric("memoryGB", "Memory", "decgbytes", 0, "GPUs_GlobalMemoryMb / 1024"),
	NameColumn(Jobs, "job", "Job", "GlobalJobId"),
	TextColumn("start", "Start", ""),
	TextColumn("end", "End", ""),
	Metric("hours", "Hours", Hours, 1, ""),
	TextColumn("link", "Link", "How a job ad was found"),
	TextColumn("outcome", "Outcome", ""),
	TextColumn("time", "Time", ""),
	TextColumn("timeEnd", "End", ""),
	TextColumn("title", "Title", ""),
	TextColumn("text", "Text", ""),
	TextColumn("tags", "Tags", ""),
	Metric("survival", "Survival", Share, 2, "Share still ongoing at this age"),
	Metric("low", "95% low", Share, 2, "Lower bound of the 95% interval"),
	Metric("high", "95% high", Share, 2, "Upper bound of the 95% interval"),
	Metric("atRisk", "At risk", Count, 0, "How many the curve rests on at this age"),
}, each(len(Groupings), func(i int) Column { return Groupings[i].Column })...)
