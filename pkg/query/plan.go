package query

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
)

// Request is a query with what one call adds.
type Request struct {
	Model
	Window        pool.Window
	IntervalMs    int64 // the distance of points that the panel can show
	MaxDataPoints int64
	FromAlert     bool
	OnDashboard   bool // asked for by a dashboard's panel
	Now           pool.Micros
}

// Env is what the data source's settings say.
type Env struct {
	Zone         *localtime.Zone
	SliceMinutes int // 0: every snapshot is its own slice
	Lists        pool.Lists
}

// Plan is a request that can be answered: checked, with its defaults filled in.
type Plan struct {
	Kind, View string
	GroupBy    []string // also the table's group columns and the series' labels; allocation adds slots where there is no category
	Metrics    []string
	Frame      string // shape of the answer: FrameSeries, FrameTable, …
	Numeric    bool   // a table with one number, for alert rules: no totals, no rowType, no nulls
	Totals     bool
	Filter     Filter            // as asked
	Select     Selection         // the same, compiled
	Bucket     *localtime.Bucket // of a series; nil = the whole window
	Location   *time.Location    // of calendar buckets and hours of the week
	Duration   string            // tenure or vacancy
	Limit      int               // as asked; 0 = the view's own

	CompleteBucketsOnly bool

	Window      pool.Window
	Now         pool.Micros
	FromAlert   bool
	OnDashboard bool
	Env         Env

	model Model
}

// Plan checks a request and fills in its defaults. Errors are pool.BadQuery and say what is possible.
func (r Request) Plan(env Env) (*Plan, error) {
	kind := kindOf(r.QueryType)
	if kind == nil {
		var names []string
		for _, k := range Kinds {
			names = append(names, k.Name)
		}
		if r.QueryType == "" {
			return nil, pool.BadQuery("queryType is missing: possible are %s", strings.Join(names, ", "))
		}
		return nil, one("queryType", r.QueryType, names)
	}
	view := &kind.Views[0]
	if r.View != "" {
		if view = kind.view(r.View); view == nil {
			var names []string
			for _, v := range kind.Views {
				names = append(names, v.Name)
			}
			return nil, one(kind.Name+": view", r.View, names)
		}
	}
	name := kind.Name + "/" + view.Name
	p := &Plan{
		Kind: kind.Name, View: view.Name, Frame: view.Frame, GroupBy: r.GroupBy, Metrics: r.Metrics, Filter: r.Filter, Limit: r.Limit, CompleteBucketsOnly: r.CompleteBucketsOnly,
		Window: r.Window, Now: r.Now, FromAlert: r.FromAlert, OnDashboard: r.OnDashboard, Env: env, model: r.Model,
	}
	if r.Window.To < r.Window.From {
		return nil, pool.BadQuery("the window ends (%s) before it begins (%s)", text(r.Window.To), text(r.Window.From))
	}
	if r.Limit < 0 {
		return nil, pool.BadQuery("limit %d is negative: 0 is the view's own limit", r.Limit)
	}
	if r.GroupBy == nil && len(view.GroupBy) > 0 {
		p.GroupBy = kind.DefaultGroupBy
	}
	if err := several(name+": grouping", p.GroupBy, view.GroupBy); err != nil {
		return nil, err
	}
	if kind.Name == "allocation" && len(view.GroupBy) > 0 && !slices.Contains(p.GroupBy, "category") && !slices.Contains(p.GroupBy, "slots") {
		p.GroupBy = append(slices.Clone(p.GroupBy), "slots") // real and backfill are never added
	}
	if err := several(name+": metric", p.Metrics, view.Metrics); err != nil {
		return nil, err
	}
	if len(p.Metrics) == 0 {
		p.Metrics = view.DefaultMetrics
	}
	single := len(r.Metrics) == 1
	p.Totals = slices.Contains(view.Options, "totals") && (r.Totals == nil && !single || r.Totals != nil && *r.Totals)
	p.Numeric = view.Alerting == AlertSingleMetric && single && !p.Totals
	if r.FromAlert && view.Alerting != AlertSeries && !p.Numeric {
		return nil, pool.BadQuery("%s: %s", name, whatAlerts(view))
	}
	if err := r.checkFilter(name, view); err != nil {
		return nil, err
	}
	var err error
	if p.Select, err = r.Filter.compile(r.IncludeOldDevices == nil || *r.IncludeOldDevices); err != nil {
		return nil, err
	}
	if r.Bucket != "" {
		if err := one("bucket", r.Bucket, BucketNames); err != nil {
			return nil, err
		}
	}
	if view.Frame == FrameSeries {
		if p.Bucket, err = chooseBucket(r.Bucket, env.SliceMinutes, time.Duration(r.IntervalMs)*time.Millisecond, r.FromAlert); err != nil {
			return nil, err
		}
	}
	p.Location = env.Zone.Calendar()
	if r.Timezone != "" {
		if p.Location, err = localtime.Location(r.Timezone); err != nil {
			return nil, err
		}
	}
	if slices.Contains(view.Options, "duration") {
		p.Duration = map[string]string{"survival": "tenure", "periods": "vacancy"}[view.Name]
		if r.Duration != "" {
			if err := one(name+": duration", r.Duration, Durations); err != nil {
				return nil, err
			}
			p.Duration = r.Duration
		}
	}
	return p, nil
}

func (r *Request) checkFilter(name string, view *View) error {
	possible := "none"
	if len(view.Filters) > 0 {
		possible = strings.Join(view.Filters, ", ")
	}
	for _, f := range r.Filter.fields() {
		if len(*f.values) > 0 && !slices.Contains(view.Filters, f.name) {
			return pool.BadQuery("%s: filter.%s is not possible here: possible are %s", name, f.name, possible)
		}
	}
	if r.Filter.Idle && !slices.Contains(view.Filters, "idle") {
		return pool.BadQuery("%s: filter.idle is not possible here (allocation/machines knows it): possible are %s", name, possible)
	}
	if len(r.Filter.Users) > 0 && r.QueryType == "allocation" && len(view.Metrics) > 0 && (len(r.Metrics) != 1 || r.Metrics[0] != "allocated") {
		return pool.BadQuery("%s: filter.users is possible with the one metric allocated only: a GPU that is not claimed has no user", name)
	}
	return nil
}

// whatAlerts says how a view can be made to alert, or which views can.
func whatAlerts(view *View) string {
	if view.Alerting == AlertSingleMetric {
		return "an alert rule needs exactly one number a group: name exactly one metric (and leave totals out)"
	}
	var names []string
	for _, k := range Kinds {
		for _, v := range k.Views {
			switch v.Alerting {
			case AlertSeries:
				names = append(names, k.Name+"/"+v.Name)
			case AlertSingleMetric:
				names = append(names, k.Name+"/"+v.Name+" with exactly one metric")
			}
		}
	}
	return "this view cannot alert: possible are " + strings.Join(names, ", ")
}

func text(t pool.Micros) string { return pool.Time(t).Format(time.RFC3339Nano) }

// MaxRows bounds the rows of every table, and the series of every answer.
const MaxRows = 50_000

// Max is the limit in force: as asked, else the given one of the view; never more than 50,000.
func (p *Plan) Max(ofView int) int {
	if p.Limit == 0 {
		return ofView
	}
	return min(p.Limit, MaxRows)
}

// Executed is the query with the resolved window, zone, bucket and defaults, for people to read.
func (p *Plan) Executed() string {
	bucket := ""
	switch {
	case p.Bucket != nil:
		bucket = p.Bucket.Name
	case p.Frame == FrameSeries:
		bucket = bucketWindow
	}
	m := p.model
	m.QueryType, m.View, m.GroupBy, m.Bucket, m.Duration = p.Kind, p.View, p.GroupBy, bucket, p.Duration
	if p.Frame != FrameTable { // in a table one metric named is another question than all of one
		m.Metrics = p.Metrics
	}
	document, err := json.MarshalIndent(struct {
		From         string `json:"from"`
		To           string `json:"to"`
		Calendar     string `json:"calendar"`
		SliceMinutes int    `json:"sliceMinutes"`
		Query        Model  `json:"query"`
	}{text(p.Window.From), text(p.Window.To), p.Location.String(), p.Env.SliceMinutes, m}, "", "  ")
	if err != nil {
		return err.Error() // not reached: the model is plain data
	}
	return string(document)
}
